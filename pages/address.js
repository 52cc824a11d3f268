// Keeps the browser's address in step with the page, and tells the page about back and forward.
export default {
  template: "<span hidden></span>",
  props: { url: String, replace: Boolean },
  mounted() {
    this.onBack = () => this.$emit("back", location.pathname + location.search);
    addEventListener("popstate", this.onBack);
  },
  unmounted() {
    removeEventListener("popstate", this.onBack);
  },
  watch: {
    url(plain) {
      const url = (window.path_prefix || "") + plain;
      if (url === location.pathname + location.search) return;
      if (this.replace) history.replaceState({}, "", url);
      else history.pushState({}, "", url);
    },
  },
};

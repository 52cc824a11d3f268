// Hands the stored theme to Quasar in the moment the page is mounted, before it is painted.
export default {
  template: "<span hidden></span>",
  mounted() {
    window.pawl.paint();
  },
};

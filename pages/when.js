// A moment in the browser's zone: the full time, or an age that counts on by itself.
const FULL = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
});

function age(seconds, fine) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  const minutes = Math.floor(s / 60);
  if (fine && minutes < 10) return s % 60 ? `${minutes} min ${s % 60} s` : `${minutes} min`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return fine && minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d`;
}

export default {
  template: `<time :datetime="at" :title="form === 'full' ? undefined : full">{{ text }}</time>`,
  props: { at: String, form: { type: String, default: "full" } },
  data: () => ({ now: Date.now() }),
  computed: {
    full() {
      return FULL.format(new Date(this.at));
    },
    text() {
      if (!this.at || isNaN(new Date(this.at))) return "—";
      if (this.form === "full") return this.full;
      const text = age((this.now - new Date(this.at)) / 1000, this.form === "elapsed");
      return this.form === "ago" ? `${text} ago` : text;
    },
  },
  mounted() {
    this.clock = this.form === "full" ? null : setInterval(() => (this.now = Date.now()), 1000);
  },
  unmounted() {
    clearInterval(this.clock);
  },
};

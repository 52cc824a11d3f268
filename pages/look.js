// The console's own static script: the theme switch, the search key, visibility, an ended sign-in.
(() => {
  const THEMES = ["auto", "light", "dark"];
  const stored = () => (document.cookie.match(/(?:^|; )pawl_theme=(light|dark)/) || [])[1] || "auto";
  const systemDark = matchMedia("(prefers-color-scheme: dark)");

  // Runs before the first paint, and once more when Quasar has started.
  function paint() {
    const dark = stored() === "dark" || (stored() === "auto" && systemDark.matches);
    document.documentElement.style.colorScheme = dark ? "dark" : "light";
    document.body.classList.toggle("body--dark", dark);
    document.body.classList.toggle("body--light", !dark);
    if (window.Quasar) Quasar.Dark.set(stored() === "auto" ? "auto" : dark);
    label();
  }

  function label() {
    document.querySelectorAll("[data-pawl-theme]").forEach((button) => {
      button.setAttribute("aria-label", `Theme: ${stored()}`);
      button.setAttribute("title", `Theme: ${stored()}`);
    });
  }

  // The path below which a proxy shows the console; "" without one.
  const base = () => window.path_prefix || "";

  window.pawl = {
    nextTheme() {
      const theme = THEMES[(THEMES.indexOf(stored()) + 1) % THEMES.length];
      const life = theme === "auto" ? 0 : 31536000;
      document.cookie = `pawl_theme=${theme}; path=/; max-age=${life}; SameSite=Lax`;
      paint();
    },
    paint,
    // Copies the text beside the button that was clicked, also where the page is not served by TLS.
    async copy(event) {
      const place = event.target.closest(".pw-copy");
      const code = place.querySelector(".pw-code");
      getSelection().selectAllChildren(code);
      if (navigator.clipboard) await navigator.clipboard.writeText(code.textContent);
      else document.execCommand("copy");
      place.querySelector(".pw-copied").hidden = false;
    },
    async signOut() {
      await fetch(`${base()}/session/end`, { method: "POST" });
      location.href = `${base()}/sign-in`;
    },
  };

  paint();
  systemDark.addEventListener("change", paint);

  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable;
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const search = document.querySelector(".pw-search input");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  });

  document.addEventListener("visibilitychange", () => {
    if (window.did_handshake) emitEvent("pawlVisible", document.visibilityState === "visible");
  });

  // A closed connection may mean that the sign-in has ended: then the page leads to the sign-in page.
  setInterval(async () => {
    if (!window.socket || window.socket.connected || document.visibilityState !== "visible") return;
    try {
      const answer = await fetch(`${base()}/session`);
      const here = location.pathname.slice(base().length) + location.search;
      if (answer.status === 401) location.href = `${base()}/sign-in?next=` + encodeURIComponent(here);
    } catch {
      // the server is away; NiceGUI's own banner says so
    }
  }, 3000);
})();

// Keeps a page as it is now: fetches it again when the server says that something has changed, and puts its main part in place.
"use strict";
(() => {
  const policy = window.trustedTypes
    ? trustedTypes.createPolicy("stepgate", { createHTML: (text) => text })
    : { createHTML: (text) => text };
  const state = document.getElementById("live");
  let shown = null;
  let waiting = null;
  let source = null;

  // What somebody has opened, typed or is at stays so.
  const keep = (from, to) => {
    for (const open of from.querySelectorAll("details[id][open]")) {
      const same = to.querySelector("#" + CSS.escape(open.id));
      if (same) same.setAttribute("open", "");
    }
  };

  const ago = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const seconds = Math.round((Date.parse(time.dateTime) - Date.now()) / 1000);
      const away = Math.abs(seconds);
      const amount = away < 60 ? away + " s" : away < 3600 ? Math.floor(away / 60) + " min"
        : away < 86400 ? Math.floor(away / 3600) + " h " + (Math.floor(away / 60) % 60) + " min"
        : Math.floor(away / 86400) + " d " + (Math.floor(away / 3600) % 24) + " h";
      time.textContent = seconds > 0 ? "in " + amount : amount + " ago";
    }
  };

  const refresh = async () => {
    waiting = null;
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) { say("not refreshed: the server answered " + answer.status); return; }
    const page = new DOMParser().parseFromString(policy.createHTML(await answer.text()), "text/html");
    const [now, next] = [document.querySelector("main"), page.querySelector("main")];
    if (!now || !next) return;
    const active = document.activeElement;
    const at = active && now.contains(active) ? active.id : "";
    if (active && now.contains(active) && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName)) { again(); return; }
    keep(now, next);
    now.replaceWith(document.adoptNode(next));
    if (at) { const same = document.getElementById(at); if (same) same.focus({ preventScroll: true }); }
    ago();
    say("live");
  };

  const again = () => { if (waiting === null) waiting = setTimeout(() => refresh().catch(() => say("not refreshed: no answer")), 250); };
  const say = (text) => { if (state) state.textContent = text; };

  const open = () => {
    if (source) return;
    source = new EventSource("/events");
    source.onopen = () => say("live");
    source.onerror = () => say("reconnecting");
    source.onmessage = (event) => {
      if (shown !== null && shown !== event.data) again();
      shown = event.data;
    };
  };
  const close = () => { if (source) { source.close(); source = null; } };

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  ago();
  setInterval(ago, 15000);
  if (!document.hidden) open();
})();

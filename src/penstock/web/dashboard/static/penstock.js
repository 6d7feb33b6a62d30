// The dashboard's one script: live fragments, filters in the URL, and asking before something is changed.
// Every page can be read without it. What it puts into pages was escaped by the server.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  // ── times ──────────────────────────────────────────────────────────────────
  const UNITS = [[86400, "d"], [3600, "h"], [60, "m"]];
  const distance = (seconds) => {
    const far = Math.abs(seconds);
    const unit = UNITS.find(([length]) => far >= length);
    const told = unit ? `${Math.floor(far / unit[0])} ${unit[1]}` : `${Math.floor(far)} s`;
    return seconds >= 0 ? `${told} ago` : `in ${told}`;
  };
  const tick = () => {
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const text = distance((Date.now() - Date.parse(time.dateTime)) / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
  };

  // ── fragments ──────────────────────────────────────────────────────────────
  const parsed = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  };
  // What somebody has ticked, opened, focused or scrolled to stays so.
  const kept = (slot) => {
    const ticked = [...slot.querySelectorAll("input:checked")].map((one) => one.value);
    const opened = [...slot.querySelectorAll("details[open][id]")].map((one) => one.id);
    const focused = slot.contains(document.activeElement) ? document.activeElement : null;
    const scrolled = [...slot.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    return () => {
      for (const box of slot.querySelectorAll("input[type=checkbox]")) box.checked = ticked.includes(box.value);
      for (const id of opened) byId(id)?.setAttribute("open", "");
      slot.querySelectorAll(".scroll").forEach((one, place) => { one.scrollLeft = scrolled[place] || 0; });
      if (!focused) return;
      const same = focused.value
        ? `[value="${CSS.escape(focused.value)}"]`
        : focused.getAttribute("href") && `[href="${CSS.escape(focused.getAttribute("href"))}"]`;
      if (same) slot.querySelector(same)?.focus({ preventScroll: true });
    };
  };
  const show = (slot, html) => {
    const restore = kept(slot);
    slot.replaceChildren(parsed(html));
    restore();
    tick();
  };

  // ── logs ───────────────────────────────────────────────────────────────────
  const append = (log, number, html) => {
    if (number <= Number(log.dataset.last)) return;
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.dataset.last = number;
    log.append(parsed(html));
    byId("log-empty")?.remove();
    while (log.children.length > 2000) log.firstElementChild.remove();
    if (atEnd) log.scrollTop = log.scrollHeight;
  };

  // ── the stream ─────────────────────────────────────────────────────────────
  const pulse = (state, text) => {
    const light = byId("pulse");
    if (light) [light.dataset.state, light.textContent] = [state, text];
  };
  const banner = (text) => {
    const place = byId("banner");
    place.textContent = text || "";
    place.hidden = !text;
  };
  const follow = (address) => {
    const log = byId("log");
    const url = new URL(address, location.href);
    if (log) url.searchParams.set("after", log.dataset.last);
    const stream = new EventSource(url);
    stream.onopen = () => { pulse("on", "live"); banner(""); };
    stream.onerror = () => {
      pulse("trouble", "reconnecting");
      banner("The dashboard does not answer. This page shows what was known last, and tries again by itself.");
      // A stream that was refused is not opened again by the browser.
      if (stream.readyState === EventSource.CLOSED) setTimeout(() => follow(address), 2000);
    };
    stream.addEventListener("fragment", (event) => {
      const { slot, html } = JSON.parse(event.data);
      const place = byId(slot);
      if (place) show(place, html);
    });
    stream.addEventListener("line", (event) => { if (log) append(log, Number(event.lastEventId), event.data); });
    stream.addEventListener("trouble", (event) => {
      pulse("trouble", "no answer");
      banner(`The database does not answer: ${event.data}`);
    });
    stream.addEventListener("fine", () => { pulse("on", "live"); banner(""); });
    addEventListener("pagehide", () => stream.close(), { once: true });
  };

  // ── filters ────────────────────────────────────────────────────────────────
  const filter = (box) => {
    let waiting;
    box.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        sessionStorage.setItem("penstock-typing", String(box.selectionStart));
        box.form.requestSubmit();
      }, 600);
    });
    const caret = sessionStorage.getItem("penstock-typing");
    sessionStorage.removeItem("penstock-typing");
    if (caret !== null) { box.focus(); box.setSelectionRange(Number(caret), Number(caret)); }
  };

  // ── asking first ───────────────────────────────────────────────────────────
  // A button with data-confirm asks here, and then does it; without the script it leads to a page that asks.
  addEventListener("submit", (event) => {
    const form = event.target, button = event.submitter, dialog = byId("ask");
    if (!button?.dataset.confirm || !dialog.showModal) return;
    event.preventDefault();
    byId("ask-text").textContent = button.dataset.confirm;
    dialog.returnValue = "no";
    dialog.showModal();
    dialog.addEventListener("close", () => {
      if (dialog.returnValue !== "yes") return;
      const verb = document.createElement("input");
      Object.assign(verb, { type: "hidden", name: button.name, value: button.value });
      form.append(verb);
      form.action = button.dataset.confirmAction;
      form.submit();
    }, { once: true });
  });

  // ── keys: / goes to the filter, j and k through the list ───────────────────
  const move = (step) => {
    const links = [...document.querySelectorAll("table.list tbody a.mono")];
    if (!links.length) return;
    const place = links.indexOf(document.activeElement);
    links[Math.min(links.length - 1, Math.max(0, place + step))].focus();
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    if (event.key === "/" && byId("q")) { event.preventDefault(); byId("q").focus(); byId("q").select(); }
    if (event.key === "j") move(1);
    if (event.key === "k") move(-1);
  });

  document.querySelectorAll("input[data-filter]").forEach(filter);
  const log = byId("log");
  if (log) log.scrollTop = log.scrollHeight;
  if (document.body.dataset.live) follow(document.body.dataset.live);
  tick();
  setInterval(tick, 1000);
})();

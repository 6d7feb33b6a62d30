// The dashboard's one script: live fragments, filters in the URL, and asking before something is changed.
// Every page can be read without it. What it puts into pages was escaped by the server.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  // ── the theme: that of the system until somebody chooses one ───────────────
  const theme = localStorage.getItem("penstock-theme");
  if (theme) document.documentElement.dataset.theme = theme;

  const density = localStorage.getItem("penstock-density");
  if (density) document.documentElement.dataset.density = density;

  // ── times ──────────────────────────────────────────────────────────────────
  const UNITS = [[86400, "d"], [3600, "h"], [60, "m"]];
  const distance = (seconds) => {
    const far = Math.abs(seconds);
    const unit = UNITS.find(([length]) => far >= length);
    const told = unit ? `${Math.floor(far / unit[0])} ${unit[1]}` : `${Math.floor(far)} s`;
    return seconds >= 0 ? `${told} ago` : `in ${told}`;
  };
  const clock = (place) => {  // local time; the title has UTC
    for (const time of place.querySelectorAll("time[data-clock]")) {
      const at = new Date(time.dateTime);
      time.textContent = `${at.toTimeString().slice(0, 8)}.${String(at.getMilliseconds()).padStart(3, "0")}`;
      time.removeAttribute("data-clock");
    }
  };
  const axis = (place) => {  // local hours and days below charts; the title has UTC
    for (const time of place.querySelectorAll("time[data-axis]")) {
      const at = new Date(time.dateTime);
      const day = `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
      const text = time.dataset.axis === "day" ? day : `${two(at.getHours())}:${two(at.getMinutes())}`;
      if (time.textContent !== text) time.textContent = text;
    }
    for (const { dataset, firstChild } of place.querySelectorAll("g[data-start]")) {
      const text = `${local(new Date(dataset.start)).slice(0, 16)} to ${local(new Date(dataset.end)).slice(11, 16)}: ${dataset.what}`;
      if (firstChild.textContent !== text) firstChild.textContent = text;
    }
  };
  // Under the pointer a time says the whole of it, in the visitor's zone and in UTC; a bar of a chart, in the zone.
  const two = (number) => String(number).padStart(2, "0");
  const local = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${at.toTimeString().slice(0, 8)}`;
  addEventListener("mouseover", (event) => {
    const time = event.target.closest?.("time");
    if (time) time.title = `${local(new Date(time.dateTime))} here, ${time.dateTime.slice(0, 19).replace("T", " ")} UTC`;
  });
  const tick = () => {
    axis(document);
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
  // Changes what differs and leaves the rest: what somebody presses, ticks, opens, selects or focuses stays in place.
  const keyOf = (node) => node.nodeType === 1 ? node.id || node.dataset.key || "" : "";
  const isSame = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName;
  const morph = (old, wanted) => {
    if (old.nodeType !== 1) { if (old.data !== wanted.data) old.data = wanted.data; return; }
    if (old.matches("time[data-ago], time[data-axis]") && old.dateTime === wanted.dateTime) return;
    for (const { name } of [...old.attributes]) {
      if (!wanted.hasAttribute(name) && !(name === "open" && old.matches("details"))) old.removeAttribute(name);
    }
    for (const { name, value } of wanted.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    morphChildren(old, wanted);
  };
  const morphChildren = (old, wanted) => {
    const nodes = [...wanted.childNodes];
    const names = new Set(nodes.map(keyOf));
    const known = new Map([...old.childNodes].filter(keyOf).map((node) => [keyOf(node), node]));
    let here = old.firstChild;
    const dropGone = () => {
      while (here && keyOf(here) && !names.has(keyOf(here))) { const gone = here; here = here.nextSibling; gone.remove(); }
    };
    for (const node of nodes) {
      dropGone();
      const name = keyOf(node);
      const match = name ? known.get(name) : here && !keyOf(here) ? here : null;
      if (!match || !isSame(match, node)) { old.insertBefore(node, here); continue; }
      while (name && here && !keyOf(here)) { const gone = here; here = here.nextSibling; gone.remove(); dropGone(); }
      if (match === here) here = here.nextSibling; else old.insertBefore(match, here);
      morph(match, node);
    }
    while (here) { const gone = here; here = here.nextSibling; gone.remove(); }
  };

  // While a button of the pointer is down nothing moves: the press and the release meet the same element.
  const texts = new Map(), waiting = new Set();
  let isPressed = false, presses = 0;
  const show = (slot) => {
    const place = byId(slot);
    if (isPressed) { waiting.add(slot); return; }
    if (!place) return;
    const wanted = document.createElement("template");
    wanted.innerHTML = texts.get(slot).join("\n");
    morphChildren(place, wanted.content);
    tick();
    offerCopies();
  };
  const release = () => {
    const press = presses;
    setTimeout(() => {  // after the click that belongs to it, and not while the next press lasts
      if (press !== presses) return;
      isPressed = false;
      for (const slot of waiting) { waiting.delete(slot); show(slot); }
    });
  };
  addEventListener("pointerdown", () => { presses++; isPressed = true; }, true);
  addEventListener("pointerup", release, true);
  addEventListener("pointercancel", release, true);
  addEventListener("blur", release);  // of the window: the pointer may be released elsewhere

  // ── logs ───────────────────────────────────────────────────────────────────
  const append = (log, number, html) => {
    if (number <= Number(log.dataset.last)) return;
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.dataset.last = number;
    log.append(parsed(html));
    clock(log);
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
  const refused = async (url) => {
    try {
      const answer = await fetch(url);
      answer.body?.cancel();
      return answer.status === 403;
    } catch { return false; }
  };
  const signIn = () => {
    pulse("trouble", "signed out");
    banner("You are signed out, so this page is not live any more. ");
    const link = Object.assign(document.createElement("a"), { textContent: "Sign in again", className: "in-text" });
    link.href = `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
    byId("banner").append(link);
  };
  // Only a page that is seen has a stream: a browser opens six connections to a host, for all of its tabs together.
  let stream = null;
  const leave = () => { stream?.close(); stream = null; };
  const follow = (address) => {
    leave();
    if (document.hidden) return;
    const log = byId("log");
    const url = new URL(address, location.href);
    if (log) url.searchParams.set("after", log.dataset.last);
    stream = new EventSource(url);
    stream.onopen = () => { pulse("on", "live"); banner(""); };
    stream.onerror = () => {
      pulse("trouble", "reconnecting");
      banner("The dashboard does not answer. This page shows what was known last, and tries again by itself.");
      // A stream that was refused is not opened again by the browser.
      if (stream?.readyState === EventSource.CLOSED) refused(url).then((is) => is ? signIn() : setTimeout(() => follow(address), 2000));
    };
    stream.addEventListener("fragment", (event) => {
      const { slot, html } = JSON.parse(event.data);
      texts.set(slot, html.split("\n"));
      show(slot);
    });
    stream.addEventListener("patch", (event) => {
      const { slot, edits } = JSON.parse(event.data);
      for (const [first, removed, lines] of edits.reverse()) texts.get(slot).splice(first, removed, ...lines);
      show(slot);
    });
    stream.addEventListener("line", (event) => { if (log) append(log, Number(event.lastEventId), event.data); });
    stream.addEventListener("trouble", (event) => {
      pulse("trouble", "no answer");
      banner(`The database does not answer: ${event.data}`);
    });
    stream.addEventListener("fine", () => { pulse("on", "live"); banner(""); });
  };

  // ── filters ────────────────────────────────────────────────────────────────
  const filter = (box) => {
    let later, isLeft = false;
    box.addEventListener("input", () => {
      clearTimeout(later);
      later = setTimeout(() => {
        isLeft = true;
        const url = new URL(box.form.action);
        url.search = new URLSearchParams(new FormData(box.form));
        location.replace(url);  // a search that is still being typed is no page to go back to
      }, 600);
    });
    addEventListener("pagehide", () => {  // with the letters that were typed while the next page was on its way
      if (isLeft) sessionStorage.setItem("penstock-typing", JSON.stringify([box.value, box.selectionStart]));
    });
    const [typed, caret] = JSON.parse(sessionStorage.getItem("penstock-typing") || "[]");
    sessionStorage.removeItem("penstock-typing");
    if (typed === undefined) return;
    box.focus();
    if (typed !== box.value) { box.value = typed; box.dispatchEvent(new Event("input")); }
    box.setSelectionRange(caret, caret);
  };

  // ── asking first ───────────────────────────────────────────────────────────
  // A button with data-confirm asks here, and then does it; without the script it leads to a page that asks.
  addEventListener("submit", (event) => {
    const form = event.target, button = event.submitter, dialog = byId("ask");
    if (!button?.dataset.confirm || !dialog.showModal) return;
    event.preventDefault();
    byId("ask-text").textContent = button.dataset.confirm;
    byId("ask-yes").textContent = button.dataset.verb || "Yes";
    byId("ask-yes").className = "destructive" in button.dataset ? "destructive" : "strong";
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

  // ── choosing: all on the page, or those between two ────────────────────────
  let chosen = null;
  addEventListener("click", (event) => {
    const box = event.target.closest("table.list input[type=checkbox]");
    if (!box) return;
    const boxes = [...box.closest("table").querySelectorAll("tbody input[type=checkbox]")];
    if ("all" in box.dataset) for (const one of boxes) one.checked = box.checked;
    const from = boxes.indexOf(chosen), to = boxes.indexOf(box);
    if (event.shiftKey && from >= 0 && to >= 0) {
      for (const one of boxes.slice(Math.min(from, to), Math.max(from, to) + 1)) one.checked = box.checked;
    }
    chosen = box;
  });

  // ── copying ────────────────────────────────────────────────────────────────
  const offerCopies = () => {
    if (navigator.clipboard) for (const button of document.querySelectorAll("[data-copy][hidden]")) button.hidden = false;
  };
  addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(byId(button.dataset.copy).textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });

  // ── keys: / goes to the filter, j and k through the list ───────────────────
  const move = (step) => {
    const links = [...document.querySelectorAll("table.list tbody a.mono")];
    if (!links.length) return;
    const place = links.indexOf(document.activeElement);
    links[Math.min(links.length - 1, Math.max(0, place + step))].focus();
  };
  const open = (id) => { if (!byId(id).open) byId(id).showModal(); };
  for (const button of document.querySelectorAll("[data-theme-toggle], [data-density-toggle], [data-open]")) button.hidden = false;
  addEventListener("click", (event) => {
    const button = event.target.closest("[data-theme-toggle], [data-density-toggle], [data-open]");
    if (button?.dataset.open) open(button.dataset.open);
    else if (button && "densityToggle" in button.dataset) {
      const root = document.documentElement;
      root.dataset.density = root.dataset.density === "dense" ? "usual" : "dense";
      localStorage.setItem("penstock-density", root.dataset.density);
    } else if (button) {
      const root = document.documentElement;
      const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = isDark ? "light" : "dark";
      localStorage.setItem("penstock-theme", root.dataset.theme);
    }
  });
  // ── the palette: places that have what was typed, then a search among the jobs ──────────────────
  const places = [...document.querySelectorAll("#places li")], go = byId("go");
  const choose = (wanted) => {
    for (const one of places) one.setAttribute("aria-selected", one === wanted);
    if (wanted) go.setAttribute("aria-activedescendant", wanted.id); else go.removeAttribute("aria-activedescendant");
    wanted?.scrollIntoView({ block: "nearest" });
  };
  const offered = () => places.filter((one) => !one.hidden);
  const offer = () => {
    const text = go.value.trim(), words = text.toLowerCase();
    for (const one of places) one.hidden = "search" in one.dataset ? !text : !one.textContent.toLowerCase().includes(words);
    document.querySelector("#place-search b").textContent = text;
    const starts = offered().find((one) => one.textContent.toLowerCase().startsWith(words));
    choose(starts || offered()[0]);
  };
  const visit = (event, place) => {
    if (!place?.dataset.path) return;  // a search: the form is sent
    event.preventDefault();
    location.assign(place.dataset.path);
  };
  go.addEventListener("input", offer);
  go.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const shown = offered(), here = shown.findIndex((one) => one.getAttribute("aria-selected") === "true");
    choose(shown[(here + step + shown.length) % shown.length]);
  });
  byId("palette").addEventListener("submit", (event) => visit(event, places.find((one) => one.getAttribute("aria-selected") === "true")));
  byId("places").addEventListener("click", (event) => {
    const place = event.target.closest("li");
    if (place) { choose(place); byId("palette").firstElementChild.requestSubmit(); }
  });
  // A menu closes when something else is pressed, and by Escape.
  addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll("details.menu[open]")) { menu.open = false; menu.firstElementChild.focus(); }
  });
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k") { event.preventDefault(); open("palette"); go.select(); offer(); }
  });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    if (event.key === "/" && byId("q")) { event.preventDefault(); byId("q").focus(); byId("q").select(); }
    if (event.key === "?") open("help");
    if (event.key === "j") move(1);
    if (event.key === "k") move(-1);
  });

  document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  document.querySelectorAll("input[data-filter]").forEach(filter);
  const log = byId("log");
  clock(document);
  const line = new URLSearchParams(location.search).get("line");
  if (log) log.scrollTop = log.scrollHeight;
  if (line) byId(`line-${line}`)?.scrollIntoView({ block: "center" });
  const { live } = document.body.dataset;
  if (live) {
    follow(live);
    document.addEventListener("visibilitychange", () => { if (document.hidden) leave(); else follow(live); });
    addEventListener("pagehide", leave);
    addEventListener("pageshow", (event) => { if (event.persisted) follow(live); });
  }
  tick();
  offerCopies();
  byId("trace")?.scrollTo(0, byId("trace").scrollHeight);  // the line that raised
  setInterval(tick, 1000);
})();

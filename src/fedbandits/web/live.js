// Keeps a page up to date: parts that the server sends replace those that are there, node by node,
// so that focus, scrolling and what is selected stay. All markup comes from the page's own server.
"use strict";
(() => {
  const sign = document.getElementById("live");
  const part = (name) => document.querySelector(`[data-part="${CSS.escape(name)}"]`);

  // Parts

  function match(old, made) {
    for (const { name } of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of made.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    if (old.matches(".chart")) return; // drawn by another script
    if (old.matches("time[data-count]")) return count(old);
    if (old.matches("progress")) old.value = made.value;
    children(old, made);
  }

  function children(old, made) {
    const wanted = [...made.childNodes];
    wanted.forEach((node, place) => {
      const there = old.childNodes[place];
      if (!there) old.append(node);
      else if (there.nodeName !== node.nodeName || there.id !== node.id) there.replaceWith(node);
      else if (node.nodeType === Node.ELEMENT_NODE) match(there, node);
      else if (there.data !== node.data) there.data = node.data;
    });
    while (old.childNodes.length > wanted.length) old.lastChild.remove();
  }

  function show(holder, html) {
    const figures = new Map([...holder.querySelectorAll("script[data-figure]")].map((one) => [one.dataset.figure, one.textContent]));
    const made = new DOMParser().parseFromString(html, "text/html").body;
    for (const figure of made.querySelectorAll(".chart-frame")) figure.classList.add("live");
    children(holder, made);
    for (const data of holder.querySelectorAll("script[data-figure]")) {
      if (figures.get(data.dataset.figure) !== data.textContent) data.dispatchEvent(new Event("figure", { bubbles: true }));
    }
    holder.querySelectorAll("time[data-count]").forEach(count);
  }

  // Times that count by themselves

  const HOW = {
    for: (seconds, at) => `for ${lasting(seconds)} (since ${at})`,
    ago: (seconds, at) => `${lasting(seconds)} ago (at ${at})`,
    in: (seconds, at) => (seconds < 0 ? `in ${lasting(-seconds)} (at ${at})` : `at ${at}`),
  };
  const clock = (at) => `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;

  function lasting(seconds) {
    const s = Math.max(0, Math.round(seconds));
    if (s < 120) return `${s} s`;
    if (s < 7200) return `${Math.floor(s / 60)} min`;
    if (s < 172800) return `${(s / 3600).toFixed(1)} h`;
    return `${(s / 86400).toFixed(1)} days`;
  }

  function count(time) {
    const at = new Date(time.dateTime);
    const said = HOW[time.dataset.count]((Date.now() - at) / 1000, clock(at));
    if (time.textContent !== said) time.textContent = said;
  }

  // Clients: searched by the server, there may be thousands of them

  const search = document.querySelector("[data-search]"), table = document.getElementById("clients");
  let page = new URLSearchParams(location.search).get("page") ?? "1", asked = 0, later;

  async function find() {
    if (!table) return;
    const wanted = new URLSearchParams(new FormData(search));
    wanted.set("page", page);
    const number = ++asked;
    const answer = await fetch(`${table.dataset.from}?${wanted}`).catch(() => null);
    if (answer?.ok && number === asked) show(table, await answer.text());
  }

  function soon(wait) {
    clearTimeout(later);
    later = setTimeout(find, wait);
  }

  search?.addEventListener("submit", (event) => event.preventDefault());
  search?.addEventListener("input", () => { page = "1"; soon(150); });
  table?.addEventListener("click", (event) => {
    const link = event.target.closest("[data-page]");
    if (!link) return;
    event.preventDefault();
    page = link.dataset.page;
    find();
  });

  // The stream

  let stream, heard = Date.now(), again;
  const SILENT = 25000;

  function fresh() {
    heard = Date.now();
    sign.className = "fresh";
    sign.textContent = "Live: this page updates by itself.";
  }

  function lost(words) {
    if (sign.className === "over") return;
    sign.className = "lost";
    const at = clock(heard);
    const said = `${words} What you see is as of ${at}.`;
    if (sign.textContent !== said) sign.textContent = said;
  }

  function connect() {
    clearTimeout(again);
    stream?.close();
    stream = new EventSource(`${sign.dataset.events}?have=${encodeURIComponent(sign.dataset.have)}`);
    const note = (event) => {
      sign.dataset.have = event.lastEventId;
      fresh();
    };
    stream.addEventListener("open", fresh);
    stream.addEventListener("beat", note);
    stream.addEventListener("parts", (event) => {
      note(event);
      const parts = JSON.parse(event.data);
      for (const [name, html] of Object.entries(parts)) {
        const holder = part(name);
        if (holder) show(holder, html);
      }
      if ("clients" in parts) soon(asked ? 1000 : 0);
    });
    stream.addEventListener("over", (event) => {
      note(event);
      stream.close();
      sign.className = "over";
      sign.textContent = `The program that shows this page has ended at ${clock(heard)}. What you see is as of then; fedbandits serve shows it again.`;
      again = setTimeout(connect, 2000);
    });
    stream.addEventListener("error", () => {
      lost("The connection is lost. The page tries to get it back.");
      // A browser gives up if it is refused; the page does not.
      if (stream.readyState === EventSource.CLOSED) again = setTimeout(connect, 3000);
    });
  }

  if (sign) {
    connect();
    addEventListener("pagehide", () => stream.close());
    addEventListener("pageshow", ({ persisted }) => { if (persisted) connect(); });
    setInterval(() => {
      document.querySelectorAll("time[data-count]").forEach(count);
      if (Date.now() - heard > SILENT && sign.className === "fresh") {
        lost("Nothing has come for a while. The page tries again.");
        connect();
      }
    }, 1000);
    document.querySelectorAll("time[data-count]").forEach(count);
  }
})();

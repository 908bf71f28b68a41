// The laboratory: a form, answers that come as a stream, and copies of what is shown.
"use strict";
(() => {
  const by = (id) => document.getElementById(id);
  const form = by("lab");
  const { presets, usual } = JSON.parse(by("lab-data").textContent);
  const names = Object.keys(usual);
  const viewer = [...crypto.getRandomValues(new Uint32Array(4))].map((n) => n.toString(16)).join("");
  const control = (name) => form.elements[name];
  const element = (tag, name, text) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text) made.textContent = text;
    return made;
  };

  // The fields

  const anchors = {};
  const isRate = () => control("outcome").value === "rate";
  const percent = (v) => `${Number((100 * v).toPrecision(4))}`;
  const UNIT = {
    gap: (v) => `${percent(v)} percentage points`, spread: (v) => `${percent(v)} percentage points`,
    best: (v) => `${percent(v)} %`,
  };

  function limits(slider) {
    const name = slider.dataset.for;
    if (!("scaled" in slider.dataset) || isRate()) return [Number(slider.dataset.low), Number(slider.dataset.high)];
    const middle = anchors[name] || 1;
    return name === "best" ? [middle - Math.abs(middle), middle + Math.abs(middle)] : [middle / 30, middle * 30];
  }

  function valueAt(slider) {
    const { ends } = slider.dataset, [low, high] = limits(slider), at = Number(slider.value) / 1000;
    if (ends === "zero" && at === 0) return "0";
    if (ends === "none" && at === 1) return "";
    const value = "log" in slider.dataset ? low * (high / low) ** at : low + (high - low) * at;
    const brief = Number(value.toPrecision("log" in slider.dataset ? 2 : 3));
    return String("whole" in slider.dataset ? Math.round(brief) : Number(brief.toPrecision(12)));
  }

  function place(slider) {
    const said = control(slider.dataset.for).value.trim(), [low, high] = limits(slider);
    if (said === "") { slider.value = 1000; return; }
    const value = Number(said.replaceAll(",", "").replaceAll("_", ""));
    if (!Number.isFinite(value)) return;
    const at = "log" in slider.dataset ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    slider.value = value <= 0 && "log" in slider.dataset ? 0 : Math.round(1000 * Math.min(1, Math.max(0, at)));
  }

  function settle() {
    for (const field of form.querySelectorAll(".field")) {
      const when = JSON.parse(field.dataset.when), name = field.dataset.field;
      field.hidden = !Object.entries(when).every(([other, values]) => values.includes(control(other).value));
      const slider = field.querySelector("input[type=range]"), unit = field.querySelector(".unit");
      if (slider) {
        place(slider);
        slider.hidden = name === "best" && !isRate();
        slider.setAttribute("aria-valuetext", control(name).value || "unlimited");
      }
      const value = Number(control(name).value);
      if (name in UNIT) unit.textContent = isRate() && Number.isFinite(value) ? UNIT[name](value) : "";
      if (name === "liars" && Number.isFinite(value)) unit.textContent = `${percent(value)} % of all clients`;
    }
  }

  function fill(fields) {
    for (const name of names) control(name).value = fields[name] ?? usual[name];
    for (const name of ["gap", "noise", "spread", "best"]) anchors[name] = Number(control(name).value) || 0.02;
    settle();
  }

  const query = () => {
    const found = new URLSearchParams();
    for (const name of names) if (control(name).value.trim() !== usual[name]) found.set(name, control(name).value.trim());
    return found.toString();
  };

  function mark(errors) {
    for (const spot of form.querySelectorAll(".mistake")) spot.textContent = "";
    for (const one of form.querySelectorAll("[aria-invalid]")) one.removeAttribute("aria-invalid");
    for (const { field, problem } of errors) {
      const spot = by(`lab-${field}-mistake`);
      const seen = spot && !spot.closest(".field").hidden;
      (seen ? spot : by("lab-mistake")).textContent = seen ? problem : `${field ? `${field}: ` : ""}${problem}`;
      if (seen) control(field).setAttribute("aria-invalid", "true");
    }
  }

  // The answer

  const STAGES = [16, 128, 1000];
  const ROWS = [
    ["regret", "Regret", "What the comparison costs in all: pulls of worse options, and reports."],
    ["exploration", "for worse options", ""], ["communication", "for reports", ""],
    ["clients", "Clients", "Who takes part."],
    ["pulls", "Pulls per client", "Of a client that is in from the start, until the game is decided. Pulls of the best option cost nothing."],
    ["phases", "Rounds", "Phases: all clients report at the end of each."],
  ];
  const RATES = [["wrong", "Wrong option"], ["undecided", "Undecided"]];
  let asked = null, timer = 0, told = null, cards = new Map(), copies = {};

  const say = (text, part) => {
    by("lab-status").textContent = text;
    by("lab-progress").value = part;
  };
  const stop = (text, again) => {
    asked = null;
    say(text, 1);
    by("lab-cancel").textContent = "Start again";
    by("lab-cancel").hidden = !again;
    document.body.classList.remove("working");
  };

  function showOutlook(message) {
    told = message;
    const verdict = by("verdict");
    verdict.className = `feasible ${message.feasible ? "yes" : "no"}`;
    const head = message.feasible ? "Feasible with a guarantee." : "Not feasible with a guarantee.";
    const why = message.why.map((one) => one.replace(/^Not feasible: (.)/, (_, letter) => letter.toUpperCase()));
    const [first, ...others] = message.feasible ? ["", ...why] : why;
    verdict.replaceChildren(element("b", "", head), document.createTextNode(first ? ` ${first}` : ""));
    for (const words of others) verdict.append(element("p", "hint", words));
    const { at, text, reason } = message.bound;
    by("bound").textContent = at === null ? `No lower bound is known here: ${reason}.`
      : `Lower bound: in the limit every consistent rule pays at least ${text} here (its slope times log T), a yardstick at a finite T. It is the tick ┃ in the bars of regret.`;
    cards = new Map();
    by("designs").replaceChildren(...message.designs.map((design) => card(design, message.colours[design.label])));
    mark(message.designs.filter((one) => one.refused && one.field).map((one) => ({ field: one.field, problem: `${one.label}: ${one.refused}` })));
  }

  function card(design, colour) {
    const box = element("article", "card");
    box.dataset.design = design.label;
    if (colour) box.style.setProperty("--c", colour);
    box.append(element("h3", "", design.label), element("p", "hint words", design.words));
    if (design.refused) {
      const known = design.refused.startsWith("Not feasible");
      box.append(element("p", "refused", known ? "No schedule decides with a guarantee: see above." : `Cannot be played: ${design.refused}`));
      return box;
    }
    const list = element("dl");
    for (const [key, label, title] of ROWS) {
      const row = element("div", key === "regret" ? "row main" : "row");
      row.dataset.row = key;
      if (title) row.title = title;
      const value = element("dd");
      value.append(element("span", "number", "…"), element("small", "range"));
      const drawing = d3.create("svg").attr("class", "spread").attr("height", 14).attr("aria-hidden", "true");
      value.append(drawing.node());
      row.append(element("dt", "", label), value);
      list.append(row);
    }
    for (const [key, label] of RATES) {
      const row = element("div", "row rate"), value = element("dd", "number", "…");
      row.dataset.row = key;
      row.append(element("dt", "", label), value);
      list.append(row);
    }
    box.append(list);
    const proof = element("details");
    proof.append(element("summary", "", "What is proven"), element("p", "hint", design.guarantee));
    for (const doubt of design.doubts) proof.append(element("p", "refused", doubt));
    if (design.doubts.length) proof.open = true;
    box.append(proof);
    cards.set(design.label, box);
    return box;
  }

  function showGames(message) {
    const { designs } = message;
    for (const [key] of ROWS) {
      const found = Object.values(designs).map((one) => one[key]).filter(Boolean);
      const ends = found.flatMap((one) => [one.low, one.mean, one.high]).filter((v) => v > 0);
      const bound = key === "regret" && told.bound.at ? told.bound.at : null;
      if (bound) ends.push(bound);
      const scale = d3.scaleLog().domain([d3.min(ends) || 1, Math.max(d3.max(ends) || 1, 1.001 * (d3.min(ends) || 1))]).range([5, 95]);
      for (const [label, numbers] of Object.entries(designs)) {
        const row = cards.get(label).querySelector(`[data-row="${key}"]`), one = numbers[key];
        row.querySelector(".number").textContent = one ? one.text : "never";
        row.querySelector(".range").textContent = one && one.low !== one.high ? ` 9 of 10 games: ${one.range}` : "";
        const svg = d3.select(row.querySelector("svg"));
        svg.selectAll("*").remove();
        if (!one || !(one.mean > 0)) continue;
        const at = (v) => `${scale(Math.max(v, scale.domain()[0]))}%`;
        svg.append("line").attr("class", "rail").attr("x1", "5%").attr("x2", "95%").attr("y1", 7).attr("y2", 7);
        svg.append("line").attr("class", "interval wide").attr("x1", at(one.low)).attr("x2", at(one.high)).attr("y1", 7).attr("y2", 7);
        svg.append("circle").attr("class", "mark").attr("cx", at(one.mean)).attr("cy", 7).attr("r", 4.5);
        if (bound) svg.append("line").attr("class", "bound").attr("x1", at(bound)).attr("x2", at(bound)).attr("y1", 1).attr("y2", 13);
      }
    }
    for (const [label, numbers] of Object.entries(designs)) {
      for (const [key] of RATES) cards.get(label).querySelector(`[data-row="${key}"]`).lastChild.textContent = numbers[key].text;
    }
    const least = d3.least(Object.entries(designs), ([, one]) => one.regret.mean);
    for (const [label, box] of cards) box.classList.toggle("least", Object.keys(designs).length > 1 && label === least[0]);
    brief(designs);
    const data = document.querySelector("script[data-later]") ?? document.querySelector('script[data-figure="regret"]');
    data.textContent = JSON.stringify(message.chart);
    data.removeAttribute("data-later");
    data.dataset.figure = "regret";
    data.dispatchEvent(new Event("figure", { bubbles: true }));
    copies = { file: message.file, command: message.command };
    by("lab-file").textContent = message.file;
    for (const id of ["copy-file", "copy-command"]) by(id).disabled = false;
  }

  function brief(designs) {
    const bar = by("lab-brief") ?? document.body.appendChild(element("div", "brief"));
    bar.id = "lab-brief";
    bar.setAttribute("aria-hidden", "true");
    bar.replaceChildren(element("span", "", "Regret"), ...Object.entries(designs).map(([label, one]) => {
      const part = element("span", "part");
      part.style.setProperty("--c", told.colours[label]);
      part.append(element("i", "swatch"), element("b", "", one.regret.text.split("\u00a0")[0]));
      part.title = label;
      return part;
    }));
  }

  const KINDS = {
    outlook: showOutlook,
    playing: ({ games, design }) => {
      const stage = STAGES.indexOf(games), labels = [...cards.keys()];
      say(`${stage === 0 ? "First estimate" : "Refining"}: ${games.toLocaleString("en")} games of each design (${design})`,
        (stage + labels.indexOf(design) / labels.length) / STAGES.length);
    },
    games: (message) => {
      showGames(message);
      form.dataset.games = message.games;
    },
    failed: ({ design, problem }) => {
      const box = cards.get(design);
      box.querySelector("dl").replaceWith(element("p", "refused", `Cannot be played: ${problem}`));
      cards.delete(design);
    },
    done: ({ complete }) => stop(`${Number(form.dataset.games).toLocaleString("en")} games of each design${complete ? "" : "; more would take too long"}`, false),
    cut: ({ seconds }) => stop(`Stopped after ${seconds} seconds: this setting takes too long. What was known by then is shown.`, true),
    broke: () => stop("The computation was ended by the system; ask for fewer clients.", true),
    busy: ({ waiting }) => stop(`${waiting} others are waiting; try again in a moment.`, true),
    superseded: () => {},
    refused: ({ errors }) => {
      mark(errors);
      document.body.classList.add("stale");
      stop("Mend the marked field to go on.", false);
    },
  };

  async function ask() {
    asked?.abort();
    const mine = asked = new AbortController(), said = query();
    history.replaceState(null, "", said ? `?${said}` : location.pathname);
    form.dataset.games = 0;
    by("lab-cancel").textContent = "Cancel";
    by("lab-cancel").hidden = false;
    document.body.classList.add("working");
    say("Thinking…", 0);
    try {
      const answer = await fetch(`/lab/answer?${said}${said ? "&" : ""}viewer=${viewer}`, { signal: mine.signal });
      if (!answer.ok) throw new Error(await answer.text());
      const reader = answer.body.getReader(), decoder = new TextDecoder();
      let rest = "", first = true;
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const lines = (rest + decoder.decode(part.value, { stream: true })).split("\n");
        rest = lines.pop();
        if (mine.signal.aborted) return;
        for (const message of lines.filter(Boolean).map((line) => JSON.parse(line))) {
          if (first && message.kind === "outlook") {
            mark([]);
            document.body.classList.remove("stale");
            document.dispatchEvent(new CustomEvent("setting", { detail: { query: said, viewer } }));
          }
          first = false;
          KINDS[message.kind](message);
        }
      }
      if (rest.trim() && mine === asked) {
        const message = JSON.parse(rest);
        KINDS[message.kind](message);
      }
      if (mine === asked) stop("The answer broke off.", true);
    } catch (error) {
      if (mine === asked && error.name !== "AbortError") stop(`No answer: ${error.message}. Is the server running?`, true);
    }
  }

  const soon = (wait = 100) => {
    clearTimeout(timer);
    timer = setTimeout(ask, wait);
  };

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", ({ target }) => {
    if (target.type === "range") control(target.dataset.for).value = valueAt(target);
    if (target.name === "outcome") for (const name of ["gap", "noise", "spread", "best"]) anchors[name] = Number(control(name).value) || 0.02;
    for (const one of form.querySelectorAll("[data-preset]")) one.removeAttribute("aria-pressed");
    by("preset-words").textContent = "";
    const held = target.type === "range" ? target.value : null;
    settle();
    if (held !== null) target.value = held;
    soon(target.type === "range" ? 60 : 250);
  });
  for (const button of form.querySelectorAll("[data-preset]")) {
    button.addEventListener("click", () => {
      const preset = presets.find((one) => one.key === button.dataset.preset);
      fill(preset.fields);
      for (const one of form.querySelectorAll("[data-preset]")) one.removeAttribute("aria-pressed");
      button.setAttribute("aria-pressed", "true");
      by("preset-words").textContent = preset.words;
      soon(0);
    });
  }
  by("lab-cancel").addEventListener("click", () => {
    if (!asked) return ask();
    asked.abort();
    stop("Cancelled. What was known by then is shown.", true);
  });

  // Copies

  async function copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Browsers refuse it on pages that are not encrypted, unless they come from this machine.
      const box = document.body.appendChild(element("textarea"));
      box.value = text;
      box.select();
      document.execCommand("copy");
      box.remove();
    }
    by("copied").textContent = `${what} copied.`;
    setTimeout(() => { by("copied").textContent = ""; }, 4000);
  }
  by("copy-file").addEventListener("click", () => copy(copies.file, "File"));
  by("copy-command").addEventListener("click", () => copy(copies.command, "Command"));
  by("copy-link").addEventListener("click", () => {
    const said = query();
    copy(`${location.origin}${location.pathname}${said ? `?${said}` : ""}`, "Link");
  });

  fill({ ...usual, ...Object.fromEntries(new URLSearchParams(location.search)) });
  ask();
})();

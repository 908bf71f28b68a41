// A game, step by step: two rules side by side, from frames of the simulator.
"use strict";
(() => {
  const by = (id) => document.getElementById(id);
  const host = by("playback"), sides = by("play-sides"), slider = by("play-at");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const SPEEDS = ["0.5", "1", "2", "4", "16"];
  const PARTS = ["join", "pull", "decide"];
  const STEP = 800, LONGEST = 45000, DOT_ROWS = 4;
  const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const counted = (n, what) => `${number.format(n)} ${what}${n === 1 ? "" : "s"}`;
  let setting = null, shown = null, game = null, at = 0, steps = 0, timer = 0, playing = false, which = 0, drawn = [];

  // What a side looks like at a step

  function stateOf(side, step) {
    // Phases whose clients have joined, pulled and been decided on.
    const over = step > 3 * side.frames.length, place = Math.min(step, 3 * side.frames.length);
    const [joined, pulled, decided] = [place + 2, place + 1, place].map((n) => Math.floor(n / 3));
    const part = (place + 2) % 3, frame = side.frames[joined - 1];
    return {
      step, part, frame, over,
      clients: frame?.clients ?? 0,
      newcomers: part === 0 && !over && frame ? frame.newcomers : 0,
      pulled: part === 1 && !over && frame ? frame.pulls : game.means.map(() => 0),
      active: (side.frames[decided - 1]?.after) ?? side.frames[0].before,
      ...side.sums[pulled],
      communication: side.sums[decided].communication,
    };
  }

  function addUp(side) {
    const none = game.means.map(() => null);
    let sum = { pulls: game.means.map(() => 0), exploration: 0, communication: 0, values: none, widths: none };
    side.sums = [sum];
    for (const frame of side.frames) {
      sum = {
        pulls: sum.pulls.map((n, arm) => n + frame.clients * frame.pulls[arm]),
        exploration: sum.exploration + frame.exploration, communication: sum.communication + frame.communication,
        // What was known of an option when it left stays as it was.
        values: frame.values.map((value, arm) => (frame.before[arm] ? value : sum.values[arm])),
        widths: frame.widths.map((width, arm) => (frame.before[arm] ? width : sum.widths[arm])),
      };
      side.sums.push(sum);
    }
  }

  function wordsOf(side, state) {
    if (state.step === 0) return "Nothing is known yet.";
    const { frame, part } = state, count = state.active.filter(Boolean).length;
    if (state.over) return side.winner === null ? "The horizon came before a decision." : `Decided: option ${side.winner + 1}.`;
    const name = `Phase ${frame.phase}`;
    if (part === 0) {
      return frame.newcomers ? `${name}: ${counted(frame.newcomers, "client")} join${frame.newcomers === 1 ? "s" : ""}.` : `${name}: nobody joins.`;
    }
    if (part === 1) {
      const often = frame.pulls.filter((n) => n > 0), [low, high] = d3.extent(often);
      const each = low === high ? `${counted(low, "time")}` : `${number.format(low)} to ${number.format(high)} times`;
      return `${name}: each client pulls ${often.length === frame.pulls.length ? "all options" : counted(often.length, "option")} ${each}, and reports.`;
    }
    const out = frame.before.filter((was, arm) => was && !frame.after[arm]).length;
    if (frame.settled) return `${name}: decided for option ${frame.after.indexOf(true) + 1}.`;
    return out ? `${name}: ${counted(out, "option")} dropped, ${number.format(count)} left.`
      : `${name}: ${side.algorithm === "fed-index" ? "options whose index is above the best estimate stay challengers" : "no interval lies below another; nothing is dropped"}.`;
  }

  // Drawing

  const TOP = 84, LEFT = 66, RIGHT = 92;

  function makeSide(side, number_) {
    const box = document.createElement("article");
    box.className = "side";
    box.dataset.side = side.label;
    const head = box.appendChild(document.createElement("h3"));
    head.textContent = side.label;
    const small = head.appendChild(document.createElement("small"));
    small.textContent = ` ${side.algorithm}`;
    const now = box.appendChild(document.createElement("p"));
    now.className = "now";
    sides.append(box);
    const width = box.clientWidth, count = game.means.length;
    const row = count <= 12 ? 20 : Math.max(4, 260 / count), height = TOP + row * count + 104;
    const svg = d3.select(box).append("svg").attr("class", "drawing").attr("width", width).attr("height", height)
      .attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img")
      .attr("aria-label", `${side.label}: options with their estimates and intervals, clients and regret so far`)
      .style("--c", side.colour);
    const order = d3.sort(d3.range(count), (arm) => -game.means[arm]);
    const place = new Map(order.map((arm, rank) => [arm, TOP + row * (rank + 0.5)]));
    const x = d3.scaleLinear().domain(game.domain).range([LEFT, width - RIGHT]).clamp(true);
    const clip = `play-clip-${number_}`;
    svg.append("clipPath").attr("id", clip).append("rect").attr("x", LEFT).attr("y", TOP - 4).attr("width", Math.max(0, width - LEFT - RIGHT)).attr("height", row * count + 8);
    const heads = svg.append("g").attr("class", "faint");
    heads.append("text").attr("x", LEFT).attr("y", TOP - 8).text("estimate and how far it may be off");
    heads.append("text").attr("x", width).attr("y", TOP - 8).attr("text-anchor", "end").text("share of pulls");
    const ticks = svg.append("g");
    for (const value of x.ticks(4)) {
      ticks.append("line").attr("class", "grid").attr("x1", x(value)).attr("x2", x(value)).attr("y1", TOP).attr("y2", TOP + row * count);
      ticks.append("text").attr("class", "tick").attr("x", x(value)).attr("y", TOP + row * count + 15).attr("text-anchor", "middle").text(value);
    }
    const arms = svg.append("g").selectAll("g").data(d3.range(count)).join("g").attr("class", "arm").attr("transform", (arm) => `translate(0,${place.get(arm)})`);
    if (row >= 11) arms.append("text").attr("class", "name").attr("x", 0).attr("dy", ".35em").text((arm) => `option ${arm + 1}`);
    const inside = arms.append("g").attr("clip-path", null);
    inside.append("line").attr("class", "interval wide").attr("x1", x.range()[0]).attr("x2", x.range()[1]);
    inside.append("circle").attr("class", "mark").attr("r", Math.min(4.5, row / 2)).attr("cx", x((game.domain[0] + game.domain[1]) / 2));
    inside.append("path").attr("class", "truth").attr("d", d3.symbol(d3.symbolDiamond, Math.min(26, row * 3))()).attr("transform", (arm) => `translate(${x(game.means[arm])},0)`);
    arms.append("rect").attr("class", "bar").attr("x", width - RIGHT + 10).attr("y", -Math.min(5, row / 3)).attr("height", Math.min(10, row / 1.5)).attr("width", 0);
    const dots = svg.append("g").attr("class", "dots");
    const crowd = svg.append("text").attr("class", "name crowd").attr("x", 0).attr("y", 12);
    const foot = TOP + row * count + 40;
    const cost = svg.append("g").attr("transform", `translate(0,${foot})`);
    cost.append("text").attr("class", "name total").attr("x", 0).attr("y", 0);
    cost.append("rect").attr("class", "rail").attr("x", 0).attr("y", 8).attr("width", width).attr("height", 14);
    cost.append("rect").attr("class", "bar exploration").attr("x", 0).attr("y", 8).attr("height", 14).attr("width", 0);
    cost.append("rect").attr("class", "bar communication").attr("y", 8).attr("height", 14).attr("width", 0);
    cost.append("text").attr("class", "faint parts").attr("x", 0).attr("y", 40);
    return { side, box, now, svg, x, width, row, arms, dots, crowd, cost };
  }

  function draw(one, wait) {
    const { side, x, width } = one, state = stateOf(side, at);
    const soft = (chosen) => (wait && !still.matches ? chosen.transition().duration(wait).ease(d3.easeCubicOut) : chosen.interrupt());
    one.now.textContent = wordsOf(side, state);
    const [low, high] = game.domain, middle = (low + high) / 2;
    const value = (arm) => state.values[arm] ?? middle;
    const half = (arm) => state.widths[arm] ?? high - low;
    one.arms.classed("out", (arm) => !state.active[arm]).classed("pulled", (arm) => state.pulled[arm] > 0)
      .classed("winner", (arm) => (state.over || (state.part === 2 && state.frame?.settled)) && side.winner === arm);
    soft(one.arms.select(".interval")).attr("x1", (arm) => x(value(arm) - half(arm))).attr("x2", (arm) => x(value(arm) + half(arm)));
    soft(one.arms.select(".mark")).attr("cx", (arm) => x(value(arm))).attr("opacity", (arm) => (state.values[arm] === null ? 0 : 1));
    const all = d3.sum(state.pulls) || 1;
    soft(one.arms.select(".bar")).attr("width", (arm) => (RIGHT - 10) * state.pulls[arm] / all);
    // Clients, one dot for several if they are many.
    const across = Math.max(1, Math.floor(width / 9)), each = Math.ceil(game.most / (DOT_ROWS * across));
    const count = Math.ceil(state.clients / each), fresh = Math.ceil((state.clients - state.newcomers) / each);
    const dots = one.dots.selectAll("circle").data(d3.range(count));
    dots.exit().remove();
    soft(dots.enter().append("circle").attr("r", 0).attr("cx", (i) => 4 + 9 * (i % across)).attr("cy", (i) => 24 + 9 * Math.floor(i / across))).attr("r", 3);
    one.dots.selectAll("circle").classed("fresh", (i) => state.newcomers > 0 && i >= fresh).classed("busy", state.part === 1 && !state.over && at > 0);
    one.crowd.text(`${counted(state.clients, "client")}${each > 1 ? ` (a dot is ${each})` : ""}`);
    const money = d3.scaleLinear().domain([0, d3.max(game.sides, (other) => other.sums.at(-1).exploration + other.sums.at(-1).communication) || 1]).range([0, width]);
    soft(one.cost.select(".exploration")).attr("width", money(state.exploration));
    soft(one.cost.select(".communication")).attr("x", money(state.exploration)).attr("width", money(state.communication));
    one.cost.select(".total").text(`Regret so far: ${number.format(state.exploration + state.communication)}`);
    one.cost.select(".parts").text(`${number.format(state.exploration)} for worse options, ${number.format(state.communication)} for reports`);
  }

  function show(step, wait = 0, aloud = true) {
    if (!game) return;
    at = Math.max(0, Math.min(steps, step));
    slider.value = at;
    for (const one of drawn) draw(one, wait);
    const words = drawn.map(({ side, now }) => `${side.label}: ${now.textContent}`).join(" ");
    slider.setAttribute("aria-valuetext", words);
    by("play-words").setAttribute("aria-live", aloud ? "polite" : "off");
    by("play-words").textContent = `Step ${at} of ${steps}${at && at < steps ? ` (${PARTS[(at - 1) % 3]})` : ""}`;
    by("play-moral").hidden = at < steps;
  }

  function moral() {
    const best = d3.maxIndex(game.means);
    const parts = game.sides.map((side) => {
      const { pulls } = side.sums.at(-1), share = d3.sum(pulls) ? pulls[best] / d3.sum(pulls) : 0;
      return `${side.label} decided with ${counted(side.clients, "client")} and ${counted(side.phases, "phase")}, made ${Math.round(100 * share)} % of its pulls until then with the best option, and cost ${number.format(side.regret)}`;
    });
    by("play-moral").textContent = `In this game ${parts.join("; ")}. Elimination pulls all options that are left equally often, good or bad. An index rule pulls mostly what looks best, asks for clients only if it must, and so pays less for worse options; its guarantee is another one (see “What is proven”).`;
  }

  // The clock

  function pause() {
    playing = false;
    clearTimeout(timer);
    label();
  }
  function label() {
    const play = host.querySelector('[data-play="play"]');
    play.firstChild.textContent = playing ? "⏸" : "▶";
    play.lastChild.textContent = playing ? "Pause" : "Play";
    play.setAttribute("aria-pressed", playing);
  }
  const pace = () => Math.min(STEP, LONGEST / Math.max(1, steps)) / Number(by("play-speed").value);
  function tick() {
    if (!playing) return;
    if (at >= steps) return pause();
    show(at + 1, 0.7 * pace(), false);
    timer = setTimeout(tick, pace());
  }
  function play() {
    if (!game) return;
    if (playing) return pause();
    if (at >= steps) show(0);
    playing = true;
    label();
    tick();
  }

  // Games

  async function load() {
    if (!setting) return;
    pause();
    const left = by("play-left").value, said = `${setting.query}${setting.query ? "&" : ""}game=${which}&left=${encodeURIComponent(left)}`;
    if (said === shown) return;
    shown = said;
    host.classList.add("loading");
    try {
      const answer = await fetch(`/lab/answer?${said}&viewer=${setting.viewer}g`);
      const message = JSON.parse((await answer.text()).trim().split("\n").at(-1));
      if (said !== shown || message.kind === "superseded") return;
      const problem = message.kind === "refused" ? message.errors.map((one) => one.problem).join(" ") : message.kind === "game" ? "" : "This game takes too long to show; ask for fewer clients.";
      by("play-mistake").textContent = problem;
      game = problem ? null : message;
      lay();
    } catch {
      by("play-mistake").textContent = "No answer. Is the server running?";
      shown = null;
    } finally {
      host.classList.remove("loading");
    }
  }

  function lay() {
    drawn = [];
    sides.replaceChildren();
    by("play-moral").hidden = true;
    by("play-words").textContent = "";
    if (!game) return;
    game.sides.forEach(addUp);
    game.most = d3.max(game.sides, (side) => side.clients);
    const widths = d3.sort(game.sides.flatMap((side) => side.frames.flatMap((frame) => frame.widths.filter((w) => w !== null))));
    const [low, high] = d3.extent(game.means), pad = 0.35 * (high - low) + 1.1 * (d3.quantile(widths, 0.6) ?? 0);
    game.domain = [low - pad, high + pad];
    steps = 3 * d3.max(game.sides, (side) => side.frames.length) + 1;
    slider.max = steps;
    drawn = game.sides.map(makeSide);
    moral();
    show(Math.min(at, steps));
  }

  let visible = false;
  new IntersectionObserver(([entry]) => {
    visible = entry.isIntersecting;
    if (visible) load();
    else pause();
  }, { rootMargin: "200px" }).observe(host);
  document.addEventListener("setting", ({ detail }) => {
    setting = detail;
    at = 0;
    if (visible) load();
  });
  let width = sides.clientWidth;
  new ResizeObserver(() => {
    if (sides.clientWidth === width) return;
    width = sides.clientWidth;
    lay();
  }).observe(sides);

  const DO = {
    first: () => { pause(); show(0); },
    back: () => { pause(); show(at - 1); },
    step: () => { pause(); show(at + 1, 0.6 * STEP); },
    last: () => { pause(); show(steps); },
    play,
    another: () => { which = (which + 1) % 1000; at = 0; load(); },
    faster: () => { by("play-speed").value = SPEEDS[Math.min(SPEEDS.length - 1, SPEEDS.indexOf(by("play-speed").value) + 1)]; },
    slower: () => { by("play-speed").value = SPEEDS[Math.max(0, SPEEDS.indexOf(by("play-speed").value) - 1)]; },
  };
  const KEYS = { " ": "play", ArrowRight: "step", ArrowLeft: "back", Home: "first", End: "last", "+": "faster", "=": "faster", "-": "slower" };
  host.addEventListener("click", ({ target }) => DO[target.closest("[data-play]")?.dataset.play]?.());
  host.addEventListener("keydown", (event) => {
    const inControl = event.target.matches("select, input, button");
    // Keys that a control has a use for stay with it.
    if (event.ctrlKey || event.metaKey || event.altKey || (inControl && !(event.target.matches("button") && event.key !== " "))) return;
    const what = KEYS[event.key];
    if (!what) return;
    event.preventDefault();
    DO[what]();
  });
  slider.addEventListener("input", () => { pause(); show(Number(slider.value)); });
  by("play-left").addEventListener("change", () => { at = 0; load(); });
})();

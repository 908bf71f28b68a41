// Draws the charts of a page from the JSON beside them. Names are only ever set as text.
"use strict";
(() => {
  const narrow = matchMedia("(max-width: 40rem)");
  const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
  const four = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
  const exact = new Intl.NumberFormat("en", { maximumSignificantDigits: 12 });
  const raised = (n) => String(n).replace(/./g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
  const percent = (format) => (v) => `${format.format(100 * v)} %`;
  const TICK = {
    number: (v) => exact.format(v),
    percent: percent(exact),
    power: (v) => (Math.abs(Math.log10(v) % 1) < 1e-9 ? `10${raised(Math.round(Math.log10(v)))}` : exact.format(v)),
  };
  const number = (v) => (Math.abs(v) >= 1000 ? whole : four).format(v);
  const position = (v) => (Math.abs(v) >= 1000 ? whole : three).format(v);
  const VALUE = { number, power: number, percent: percent(four) };
  const SHAPE = {
    dot: [d3.symbolCircle, 0], square: [d3.symbolSquare, 0], triangle: [d3.symbolTriangle, 0],
    diamond: [d3.symbolDiamond, 0], down: [d3.symbolTriangle, 180], cross: [d3.symbolCross, 45],
  };
  const pen = document.createElement("canvas").getContext("2d");
  const widthOf = (text) => {
    pen.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
    return pen.measureText(text).width;
  };
  const shortened = (text, room) => {
    let cut = text;
    while (cut.length > 1 && widthOf(cut) > room) cut = cut.slice(0, -1);
    return cut === text ? text : `${cut.trimEnd()}…`;
  };
  const element = (tag, name, text) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text) made.textContent = text;
    return made;
  };
  const button = (text, press, pressed) => {
    const made = element("button", "", text);
    made.type = "button";
    if (pressed !== undefined) made.setAttribute("aria-pressed", pressed);
    made.addEventListener("click", press);
    return made;
  };

  // Scales and axes

  function scaleOf(axis, log, values, range, zoomed) {
    const usual = log === Boolean(axis.log);
    let [low, high] = d3.extent(log ? values.filter((v) => v > 0) : values);
    if (low === undefined) [low, high] = log ? [1, 10] : [0, 1];
    if (usual && axis.low !== undefined && (!log || axis.low > 0)) low = axis.low;
    else if (!usual && !log) low = Math.min(0, low);
    if (usual && axis.high !== undefined) high = axis.high;
    else if (!log) high += 0.04 * (high - low);
    if (!log && axis.low === undefined && low !== 0) low -= 0.04 * (high - low);
    if (!(high > low)) high = log ? 10 * low : low + 1;
    return (log ? d3.scaleLog() : d3.scaleLinear()).domain(zoomed ?? [low, high]).range(range);
  }

  function ticksOf(scale, axis, log, most) {
    const [low, high] = scale.domain();
    const form = TICK[axis.form ?? "number"];
    let found;
    if (axis.ticks) found = axis.ticks.map(([place, text]) => [place, text]);
    else if (!log) return scale.ticks(Math.max(2, most - 1)).map((v) => [v, form(v)]);
    else {
      const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
      const steps = axis.form === "power" || Math.log10(high / low) > 3 ? [1] : [1, 2, 5];
      found = d3.range(first, last + 1).flatMap((e) => steps.map((s) => Number(`${s}e${e}`)));
      found = found.filter((v) => v >= low && v <= high);
      if (found.length < 2) found = scale.ticks(most);
      found = found.map((v) => [v, form(v)]);
    }
    found = found.filter(([v]) => v >= low * (1 - 1e-9) - 1e-12 && v <= high * (1 + 1e-9) + 1e-12);
    const every = Math.ceil(found.length / most);
    return found.filter((_, place) => (found.length - 1 - place) % every === 0);
  }

  const titled = (label, log) => [label, log ? "logarithmic" : ""].filter(Boolean).join(", ");

  // In as many lines as it needs, above the axes.
  function yTitle(panel, log, room) {
    const lines = [""];
    for (const word of titled(panel.y.label, log).split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (widthOf(longer) * 1.05 > room && lines.at(-1)) lines.push(word);
      else lines[lines.length - 1] = longer;
    }
    return lines;
  }

  function frame(svg, panel, room, x, y, ticks, log) {
    const [left, top, width, height] = room;
    const axes = svg.append("g").attr("class", "axes");
    for (const [value, text] of ticks.y) {
      const at = y(value);
      axes.append("line").attr("class", "grid").attr("x1", left).attr("x2", left + width).attr("y1", at).attr("y2", at);
      axes.append("text").attr("class", "tick").attr("x", left - 8).attr("y", at).attr("dy", ".35em")
        .attr("text-anchor", "end").text(text);
    }
    for (const [value, text] of ticks.x) {
      const at = x(value);
      axes.append("line").attr("class", "rule").attr("x1", at).attr("x2", at).attr("y1", top + height).attr("y2", top + height + 5);
      axes.append("text").attr("class", "tick").attr("x", at).attr("y", top + height + 19).attr("text-anchor", "middle").text(text);
    }
    axes.append("line").attr("class", "rule").attr("x1", left).attr("x2", left + width)
      .attr("y1", top + height).attr("y2", top + height);
    axes.append("text").attr("class", "name").attr("x", left + width / 2).attr("y", top + height + 40)
      .attr("text-anchor", "middle").text(shortened(titled(panel.x.label, log.x), 1.1 * (left + width)));
    if (panel.y) {
      yTitle(panel, log.y, left + width).forEach((line, number, all) => {
        axes.append("text").attr("class", "name ytitle").attr("x", 0).attr("y", top - 14 * (all.length - number)).text(line);
      });
    }
  }

  function fewest(axis, log, values, width) {
    // As many ticks as have room beside each other.
    for (let most = 7; ; most--) {
      const scale = scaleOf(axis, log, values, [0, width]);
      const ticks = ticksOf(scale, axis, log, most);
      const widest = d3.max(ticks, ([, text]) => widthOf(text)) ?? 0;
      if (most <= 2 || (widest + 14) * ticks.length <= width) return most;
    }
  }

  // Series between axes

  function plot(svg, panel, state, number, size) {
    const shown = panel.series.filter((s) => !state.hidden.has(s.label || s.group));
    const log = { x: state.log.x ?? Boolean(panel.x.log), y: state.log.y ?? Boolean(panel.y.log) };
    const zoom = state.zoom.get(number) ?? {};
    const some = state.hidden.size > 0;
    const ends = (s, i) => s.half ? [s.y[i] - s.half[i], s.y[i] + s.half[i]] : s.low ? [s.low[i], s.high[i]] : [s.y[i], s.y[i]];
    const known = (s) => d3.range(s.x.length).filter((i) => s.y[i] !== null);
    // Panels with the same axes have the same limits.
    const scaled = state.chart().aligned ? state.chart().panels.flatMap((one) => one.series).filter((s) => !state.hidden.has(s.label || s.group)) : shown;
    const xs = scaled.flatMap((s) => s.x);
    const ys = scaled.flatMap((s) => known(s).flatMap((i) => [s.y[i], ...(s.label || s.mark ? ends(s, i) : [])]));
    for (const { x, y } of [...(panel.guides ?? []), ...(panel.notes ?? [])]) {
      if (x !== undefined) xs.push(x);
      if (y !== undefined) ys.push(y);
    }
    const yAxis = some ? { ...panel.y, high: undefined } : panel.y;
    const top = (panel.title ? 38 : 16) + 14 * yTitle(panel, log.y, size.width - 22).length, below = 52;
    const height = size.height - top - below;
    const y = scaleOf(yAxis, log.y, ys, [top + height, top], zoom.y);
    const ticks = { y: ticksOf(y, panel.y, log.y, 6) };
    const left = 12 + Math.max(24, ...ticks.y.map(([, text]) => widthOf(text)));
    let x, width = size.width - left - 22;
    for (let out = 0; out !== null; ) {
      width -= out;
      x = scaleOf(panel.x, log.x, xs, [left, left + width], zoom.x);
      ticks.x = ticksOf(x, panel.x, log.x, fewest(panel.x, log.x, xs, width));
      // The last tick ends where the drawing does, at the latest.
      const beyond = d3.max(ticks.x, ([value, text]) => x(value) + widthOf(text) / 2) - size.width;
      out = beyond > 1 && out === 0 ? beyond : null;
    }
    frame(svg, panel, [left, top, width, height], x, y, ticks, log);
    const clip = `clip-${state.key}-${number}`;
    svg.append("clipPath").attr("id", clip).append("rect").attr("x", left - 6).attr("y", top - 6)
      .attr("width", width + 12).attr("height", height + 12);
    const inside = svg.append("g").attr("clip-path", `url(#${clip})`);
    const visible = (s) => (i) => s.y[i] !== null && (!log.x || s.x[i] > 0) && (!log.y || s.y[i] > 0 || s.band);
    const floor = y.domain()[0];
    const up = (v) => y(log.y ? Math.max(v, floor / 10) : v);
    for (const guide of panel.guides ?? []) {
      const line = inside.append("line").attr("class", "guide").attr("stroke-dasharray", (guide.dash ?? []).join(" "));
      const text = inside.append("text").attr("class", "note faint").text(guide.label ?? "");
      if (guide.x !== undefined) {
        line.attr("x1", x(guide.x)).attr("x2", x(guide.x)).attr("y1", top).attr("y2", top + height);
        text.attr("x", x(guide.x) + 4).attr("y", top + 10);
      } else {
        line.attr("x1", left).attr("x2", left + width).attr("y1", y(guide.y)).attr("y2", y(guide.y));
        text.attr("x", left + 4).attr("y", y(guide.y) - 5);
      }
    }
    for (const s of shown) {
      const points = d3.range(s.x.length);
      const place = (i) => x(s.x[i]) + (s.beside ?? 0);
      const group = inside.append("g").attr("class", "series").style("--c", s.colour)
        .attr("opacity", s.opacity ?? 1).attr("data-label", s.label || s.group || null);
      const seen = visible(s);
      if ((s.half || s.low) && s.band) {
        group.append("path").attr("class", "area").attr("d", d3.area().defined(seen)
          .x(place).y0((i) => up(ends(s, i)[0])).y1((i) => up(ends(s, i)[1]))(points));
      } else if (s.half || s.low) {
        for (const i of points.filter(seen)) {
          group.append("line").attr("class", "interval").attr("x1", place(i)).attr("x2", place(i))
            .attr("y1", up(ends(s, i)[0])).attr("y2", up(ends(s, i)[1]));
        }
      }
      const thick = 1.2 * (s.width ?? 1.8);
      if (thick) {
        const line = d3.line().defined(seen).x(place).y((i) => up(s.y[i]));
        if (s.step) line.curve(d3.curveStepAfter);
        group.append("path").attr("class", "line").attr("d", line(points)).attr("stroke-width", thick)
          .attr("stroke-dasharray", (s.dash ?? []).map((d) => d * thick).join(" ") || null);
      }
      if (s.mark) {
        const [shape, turned] = SHAPE[s.mark];
        const drawn = d3.symbol(shape, 1.6 * (s.size ?? 4) ** 2)();
        for (const i of points.filter(seen)) {
          group.append("path").attr("class", s.hollow ? "mark hollow" : "mark").attr("d", drawn)
            .attr("transform", `translate(${place(i)},${up(s.y[i])}) rotate(${turned})`);
        }
      }
    }
    for (const note of panel.notes ?? []) {
      if (note.colour) inside.append("circle").attr("class", "mark").style("--c", note.colour).attr("cx", x(note.x)).attr("cy", y(note.y)).attr("r", 4.5);
      const right = x(note.x) + 8 + widthOf(note.text) > left + width;
      inside.append("text").attr("class", "note").attr("x", x(note.x) + (right ? -8 : 8)).attr("y", y(note.y) - 8)
        .attr("text-anchor", right ? "end" : "start").text(note.text);
    }
    point(svg, panel, shown, state, number, { x, y, up, visible, ends, room: [left, top, width, height] });
  }

  function point(svg, panel, shown, state, number, at) {
    const [left, top, width, height] = at.room;
    const focus = svg.append("g").attr("class", "focus");
    const spots = shown.flatMap((s) => s.x.map((x, i) => ({ s, i, x: at.x(x) + (s.beside ?? 0), y: at.up(s.y[i]) }))
      .filter(({ s: one, i }) => at.visible(one)(i) && (one.label || one.said)));
    const brush = d3.brush().extent([[left, top], [left + width, top + height]]).on("end", ({ selection }) => {
      if (!selection) return;
      const [[x0, y0], [x1, y1]] = selection;
      if (x1 - x0 < 8) return state.draw();
      state.zoom.set(number, {
        x: [at.x.invert(x0), at.x.invert(x1)],
        y: y1 - y0 < 16 ? (state.zoom.get(number) ?? {}).y : [at.y.invert(y1), at.y.invert(y0)],
      });
      state.draw();
    });
    const cover = svg.append("g").attr("class", "cover").call(brush).on("dblclick", () => {
      state.zoom.delete(number);
      state.draw();
    });
    // A finger moves the page up and down, and zooms across.
    cover.selectAll("*").style("touch-action", "pan-y");
    const leave = () => {
      focus.selectAll("*").remove();
      state.tip.hidden = true;
    };
    cover.on("pointerleave", leave).on("pointermove pointerdown", (event) => {
      const [px, py] = d3.pointer(event, svg.node());
      focus.selectAll("*").remove();
      const near = d3.least(spots, (spot) => (spot.x - px) ** 2 + ((spot.y - py) / 3) ** 2);
      if (!near) return leave();
      const along = near.s.x[near.i];
      const beside = spots.filter(({ s, i }) => s.x[i] === along);
      const named = new Map(panel.x.ticks).get(along);
      const head = panel.x.names ? named : `${panel.x.label}: ${named ?? (panel.x.form === "percent" ? VALUE.percent : position)(along)}`;
      state.show(event, head, beside.map(({ s, i }) => {
        const form = VALUE[panel.y.form ?? "number"];
        const [low, high] = at.ends(s, i);
        // To the digits of what it belongs to.
        const half = (v) => (Math.abs(s.y[i]) >= 1000 ? whole.format(v) : form(v));
        const interval = s.half ? ` ± ${half(s.half[i])}` : s.low ? `, between ${form(low)} and ${form(high)}` : "";
        const said = s.said && s.said[i] ? `, ${s.said[i]}` : "";
        return [s.colour, s.label || s.group, `${form(s.y[i])}${interval}${said}`];
      }));
      for (const spot of beside) {
        focus.append("circle").attr("class", "mark").style("--c", spot.s.colour).attr("cx", spot.x).attr("cy", spot.y).attr("r", 4);
      }
    });
  }

  // Rows

  function rows(svg, panel, state, _, size) {
    const each = size.row, top = panel.title ? 34 : 10;
    const room = Math.min(0.42 * size.width, 24 + d3.max(panel.rows, (r) => Math.max(widthOf(r.label), widthOf(r.below ?? ""))));
    const values = panel.rows.flatMap((r) => [r.low, r.high, r.value]);
    const extent = panel.bars ? [0, 1.05 * d3.max(values)] : d3.extent(values);
    const after = panel.bars ? 60 : 22;
    const width = size.width - room - after, height = each * panel.rows.length;
    const x = d3.scaleLinear().domain(extent).range([room, room + width]);
    if (!panel.bars) x.nice(5);
    const most = fewest(panel.x, false, values, width);
    const axes = svg.append("g").attr("class", "axes");
    for (const [value, text] of ticksOf(x, panel.x, false, Math.min(6, most))) {
      axes.append("line").attr("class", "grid").attr("x1", x(value)).attr("x2", x(value)).attr("y1", top).attr("y2", top + height);
      axes.append("text").attr("class", "tick").attr("x", x(value)).attr("y", top + height + 18).attr("text-anchor", "middle").text(text);
    }
    if (panel.x.label) {
      axes.append("text").attr("class", "name").attr("x", Math.max(room + width / 2, widthOf(panel.x.label) / 2 + 4))
        .attr("y", top + height + 38).attr("text-anchor", "middle").text(panel.x.label);
    }
    panel.rows.forEach((row, place) => {
      const middle = top + each * (place + 0.5);
      const group = svg.append("g").attr("class", row.faint ? "series row faint" : "series row").style("--c", row.colour).attr("data-label", row.label);
      group.append("text").attr("class", "label").attr("x", 2).attr("y", middle + (row.below ? -3 : 4)).text(shortened(row.label, room - 14));
      if (row.below) group.append("text").attr("class", "tick").attr("x", 2).attr("y", middle + 12).text(shortened(row.below, room - 10));
      if (panel.bars) {
        group.append("rect").attr("class", "bar").attr("x", x(0)).attr("width", x(row.value) - x(0)).attr("y", middle - 0.31 * each).attr("height", 0.62 * each);
        group.append("text").attr("class", "tick").attr("x", x(row.high) + 6).attr("y", middle + 4).text(number(row.value));
      } else group.append("circle").attr("class", "mark").attr("cx", x(row.value)).attr("cy", middle).attr("r", 5);
      group.append("line").attr("class", panel.bars ? "whisker" : "interval wide").attr("x1", x(row.low)).attr("x2", x(row.high)).attr("y1", middle).attr("y2", middle);
      const half = (row.high - row.low) / 2;
      const even = Math.abs(row.high + row.low - 2 * row.value) < 0.01 * half;
      const said = even && panel.bars ? `${number(row.value)} ± ${number(half)}` : `${number(row.value)}, between ${number(row.low)} and ${number(row.high)}`;
      svg.append("rect").attr("class", "cover").attr("x", 0).attr("width", size.width).attr("y", middle - each / 2).attr("height", each)
        .on("pointermove pointerdown", (event) => state.show(event, row.label, [[row.colour, row.below ?? "", said]]))
        .on("pointerleave", () => { state.tip.hidden = true; });
    });
  }

  // Maps

  const warmth = (panel, value) => {
    const [low, high] = panel.limits.map(Math.log);
    return Math.min(1, Math.max(0, (Math.log(value) - low) / (high - low)));
  };
  const shade = (part) => d3.interpolateViridis(1 - part);

  function heat(svg, panel, state, _, size) {
    const top = (panel.title ? 38 : 16) + 14 * yTitle(panel, false, size.width - 12).length;
    const below = 52, height = size.height - top - below;
    const left = 12 + Math.min(0.3 * size.width, Math.max(...panel.y.ticks.map(([, text]) => widthOf(text))));
    const width = size.width - left - 12;
    const x = d3.scaleBand(d3.range(panel.x.ticks.length), [left, left + width]).paddingInner(0.03);
    const y = d3.scaleBand(d3.range(panel.y.ticks.length), [top + height, top]).paddingInner(0.03);
    const centre = (band) => Object.assign((v) => band(v) + band.bandwidth() / 2, { domain: () => d3.extent(band.domain()) });
    const widest = d3.max(panel.x.ticks, ([, text]) => widthOf(text)) + 10;
    frame(svg, panel, [left, top, width, height], centre(x), centre(y), {
      x: ticksOf(centre(x), panel.x, false, Math.max(2, Math.floor(width / widest))),
      y: ticksOf(centre(y), panel.y, false, Math.floor(height / 16)).map(([v, text]) => [v, shortened(text, left - 8)]),
    }, {});
    const best = new Set((panel.best ?? []).map(String));
    panel.values.forEach((line, row) => line.forEach((value, column) => {
      const cell = svg.append("rect").attr("class", "cell").attr("x", x(column)).attr("y", y(row)).attr("width", x.bandwidth()).attr("height", y.bandwidth());
      if (value === null) return;
      cell.style("fill", shade(warmth(panel, value)))
        .on("pointermove pointerdown", (event) => state.show(event, panel.title ?? "", [
          ["", panel.x.label, panel.x.ticks[column][1]], ["", panel.y.label, panel.y.ticks[row][1]], ["", panel.label, number(value)],
        ]))
        .on("pointerleave", () => { state.tip.hidden = true; });
      const middle = `translate(${x(column) + x.bandwidth() / 2},${y(row) + y.bandwidth() / 2})`;
      if (best.has(String([row, column]))) {
        svg.append("path").attr("class", "star").attr("d", d3.symbol(d3.symbolStar, 110)()).attr("transform", middle);
      } else if (panel.numbers && x.bandwidth() > 48) {
        svg.append("text").attr("class", "value").attr("transform", middle).attr("dy", ".35em").attr("text-anchor", "middle")
          .style("fill", warmth(panel, value) > 0.5 ? "#fff" : "#222").text(panel.cells[row][column]);
      }
    }));
  }

  function colourKey(panel) {
    const width = 260, box = d3.create("svg").attr("class", "key").attr("width", width + 60).attr("height", 58);
    box.append("text").attr("class", "name").attr("x", 0).attr("y", 12).text(titled(panel.label, true));
    for (const part of d3.range(0, 1, 0.02)) {
      box.append("rect").attr("x", part * width).attr("y", 20).attr("width", 0.02 * width + 0.5).attr("height", 12).style("fill", shade(part + 0.01));
    }
    const scale = d3.scaleLog().domain(panel.limits).range([0, width]);
    const [least, most] = panel.limits;
    const marks = most / least < 10 ? d3.ticks(least, most, 4) : ticksOf(scale, {}, true, 5).map(([v]) => v);
    let free = 0;
    for (const value of [least, ...marks.filter((v) => v > least)]) {
      const text = number(value), from = value === least ? 0 : scale(value) - widthOf(text) / 2;
      if (from < free) continue;
      box.append("text").attr("class", "tick").attr("x", from).attr("y", 47).text(text);
      free = from + widthOf(text) + 8;
    }
    return box.node();
  }

  // A chart: panels, legends, buttons

  const DRAW = { plot, rows, heat };
  const labelsOf = (panel) => [...new Map((panel.series ?? []).filter((s) => s.label).map((s) => [s.label, s])).values()];

  function legend(series, state) {
    const box = element("div", "legend");
    for (const s of series) {
      const item = button(s.label, () => {
        state.hidden.has(s.label) ? state.hidden.delete(s.label) : state.hidden.add(s.label);
        state.draw();
      }, !state.hidden.has(s.label));
      item.title = "Click to hide or show, double-click to see it alone";
      item.addEventListener("dblclick", () => {
        state.hidden = new Set(series.map((one) => one.label).filter((one) => one !== s.label));
        state.draw();
      });
      const sample = d3.create("svg").attr("width", 26).attr("height", 12).style("--c", s.colour);
      if (s.width !== 0) {
        sample.append("line").attr("class", "line").attr("x2", 26).attr("y1", 6).attr("y2", 6).attr("stroke-width", 1.2 * (s.width ?? 1.8))
          .attr("stroke-dasharray", (s.dash ?? []).map((d) => 1.5 * d).join(" ") || null);
      }
      if (s.mark) {
        const [shape, turned] = SHAPE[s.mark];
        sample.append("path").attr("class", s.hollow ? "mark hollow" : "mark").attr("d", d3.symbol(shape, 36)()).attr("transform", `translate(13,6) rotate(${turned})`);
      }
      item.prepend(sample.node());
      box.append(item);
    }
    return box;
  }

  function save(box, name) {
    const around = box.getBoundingClientRect();
    const sheet = [...document.getElementById("chart-style").sheet.cssRules].map((rule) => rule.cssText).join("\n");
    const out = d3.create("svg").attr("xmlns", "http://www.w3.org/2000/svg").attr("width", around.width).attr("height", around.height);
    out.append("style").text(sheet);
    for (const part of box.querySelectorAll("svg, .legend button")) {
      const { left, top } = part.getBoundingClientRect();
      if (part.tagName === "BUTTON") {
        out.append("text").attr("class", "label").attr("x", left - around.left + 42).attr("y", top - around.top + 17).text(part.textContent);
      } else {
        const copy = part.cloneNode(true);
        copy.setAttribute("x", left - around.left);
        copy.setAttribute("y", top - around.top);
        copy.querySelectorAll(".cover").forEach((cover) => cover.remove());
        out.node().append(copy);
      }
    }
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(out.node())], { type: "image/svg+xml" }));
    link.download = `${name}.svg`;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  const looked = new Map();

  function start(data) {
    const holder = document.getElementById(data.dataset.figure);
    const host = holder.querySelector(".chart");
    const made = JSON.parse(data.textContent);
    for (const chart of Object.values(made.views)) {
      for (const panel of chart.panels) for (const s of panel.series ?? []) s.x = made.xs[s.x];
    }
    // A chart that is drawn again, from newer numbers, is looked at as before.
    const key = data.dataset.figure, views = Object.keys(made.views);
    const state = looked.get(key) ?? { key, view: views[0], hidden: new Set(), log: {}, zoom: new Map() };
    if (!views.includes(state.view)) state.view = views[0];
    looked.set(key, state);
    state.tip = element("div", "tip");
    state.tip.hidden = true;
    state.show = (event, head, lines) => {
      state.tip.replaceChildren(element("b", "", head), ...lines.map(([colour, name, value]) => {
        const line = element("div");
        if (colour) line.append(element("span", "swatch"));
        if (colour) line.firstChild.style.setProperty("--c", colour);
        line.append(element("span", "", name ? `${name}: ` : ""), element("span", "number", value));
        return line;
      }));
      state.tip.hidden = false;
      const [px, py] = d3.pointer(event, host), { offsetWidth, offsetHeight } = state.tip;
      state.tip.style.left = `${Math.max(0, px + 18 + offsetWidth > host.clientWidth ? px - 18 - offsetWidth : px + 18)}px`;
      state.tip.style.top = `${Math.max(0, py - offsetHeight - 14)}px`;
    };
    state.chart = () => made.views[state.view];
    state.draw = () => {
      const chart = state.chart();
      state.tip.hidden = true;
      const tools = element("div", "tools"), body = element("div", "panels");
      if (views.length > 1) {
        for (const view of views) {
          tools.append(button(view, () => { Object.assign(state, { view, zoom: new Map() }); state.draw(); }, view === state.view));
        }
      }
      const plots = chart.panels.filter((panel) => panel.kind === "plot");
      for (const way of ["x", "y"]) {
        if (!plots.length || plots.some((panel) => panel[way].names)) continue;
        const on = state.log[way] ?? Boolean(plots[0][way].log);
        tools.append(button(`log ${way}`, () => { state.log[way] = !on; state.zoom.clear(); state.draw(); }, on));
      }
      if (state.zoom.size) tools.append(button("show all", () => { state.zoom.clear(); state.draw(); }));
      tools.append(button("save", () => save(body, chart.name)));
      const columns = narrow.matches ? 1 : chart.columns ?? 1;
      body.style.setProperty("--columns", columns);
      host.replaceChildren(tools, body, state.tip);
      const full = chart.panels.map(labelsOf);
      const most = d3.greatest(full, (one) => one.length);
      const names = new Set(most.map((s) => s.label + s.colour));
      const shared = full.every((one) => one.every((s) => names.has(s.label + s.colour)));
      chart.panels.forEach((panel, place) => {
        const box = body.appendChild(element("div", "panel"));
        const width = box.clientWidth;
        const row = panel.rows?.some((one) => one.below) ? 42 : 28;
        const height = panel.rows ? row * panel.rows.length + (panel.title ? 34 : 10) + (panel.x.label ? 46 : 26)
          : narrow.matches ? 320 : columns > 2 ? 340 : 420;
        const svg = d3.create("svg").attr("class", `drawing ${panel.kind}`).attr("width", width).attr("height", height)
          .attr("viewBox", `0 0 ${width} ${height}`)
          .attr("role", "img").attr("aria-label", panel.title || host.dataset.alt);
        box.append(svg.node());
        if (panel.title) svg.append("text").attr("class", "title").attr("x", 0).attr("y", 15).text(shortened(panel.title, 0.85 * width));
        DRAW[panel.kind](svg, panel, state, place, { width, height, row });
        if (!shared) box.append(legend(full[place], state));
      });
      if (shared && most.length > 1) body.append(legend(most, state));
      const map = chart.panels.find((panel) => panel.kind === "heat");
      if (map) {
        const key = body.appendChild(element("div", "legend"));
        key.append(colourKey(map), element("span", "", map.best?.length ? `★ ${map.note || "the best"}` : ""));
      }
    };
    holder.classList.add("live");
    try {
      state.draw();
    } catch (error) {
      // The still image stays where a chart cannot be drawn.
      holder.classList.remove("live");
      throw error;
    }
    let width = host.clientWidth;
    state.watch?.disconnect();
    state.watch = new ResizeObserver(() => {
      if (host.clientWidth && host.clientWidth !== width) {
        width = host.clientWidth;
        state.draw();
      }
    });
    state.watch.observe(host);
  }

  for (const data of document.querySelectorAll("script[data-figure]")) start(data);
  // Other scripts of the page that have put charts onto it dispatch this at the JSON of each.
  document.addEventListener("figure", ({ target }) => start(target));

  // The table of contents marks the section that is read.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) {
      if (!isIntersecting) continue;
      for (const [key, link] of links) link.toggleAttribute("aria-current", key === target.id);
    }
  }, { rootMargin: "-20% 0px -75% 0px" });
  for (const section of document.querySelectorAll("section[id]")) watch.observe(section);
})();

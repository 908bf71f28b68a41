// The still image stays where an interactive figure cannot be drawn, and in print.
const narrow = matchMedia("(max-width: 40rem)");
for (const data of document.querySelectorAll("script[data-figure]")) {
  const frame = document.getElementById(data.dataset.figure);
  const chart = frame.querySelector(".chart");
  const made = JSON.parse(data.textContent);
  frame.classList.add("live");
  Plotly.newPlot(chart, made.data, made.layout, made.config)
    .then(function () {
      if (!made.narrow) return;
      const fit = () => Plotly.relayout(chart, narrow.matches ? made.narrow : made.wide);
      narrow.addEventListener("change", fit);
      if (narrow.matches) return fit();
    })
    .catch(function () { frame.classList.remove("live"); });
}

"""The style sheet of the page, on screens of any width and on paper."""

from __future__ import annotations

STYLE = """
:root { color-scheme: only light; --ink: #222; --faint: #5f6368; --rule: #dadce0; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem clamp(1rem, 4vw, 3rem) 3rem;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial,
  sans-serif; color: var(--ink); background: #fff; overflow-wrap: break-word; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: 1rem;
  border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .5rem; }
.byline, figcaption, small { color: var(--faint); }
.byline { margin: .4rem 0 0; }
p, ul, dl { max-width: 60rem; }
ul { padding-left: 1.25rem; }
sub { line-height: 0; }
figure { margin: 1rem 0; }
figure img { display: block; width: auto; max-width: min(100%, 64rem); height: auto; }
figcaption { max-width: 60rem; margin-top: .5rem; font-size: .9rem; }
.chart-frame.live img, .chart-frame:not(.live) .screen { display: none; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .84rem; line-height: 1.35;
  font-variant-numeric: tabular-nums; }
table small { display: block; font-weight: 400; }
caption { caption-side: bottom; text-align: left; color: var(--faint); padding-top: .4rem; }
nav ol { columns: 22rem; column-gap: 3rem; margin: 1rem 0 0; padding-left: 1.25rem; }
table th, table td { padding: .45rem .42rem; text-align: right; vertical-align: top; }
thead th { font-weight: 600; vertical-align: bottom; }
thead th[scope=colgroup] { text-align: center; border-bottom: 1px solid var(--rule); }
thead tr:last-child th { border-bottom: 2px solid var(--faint); }
tbody th, tbody td { border-bottom: 1px solid var(--rule); }
tbody td { white-space: nowrap; }
table tr > th:first-child { text-align: left; padding-left: 1.25rem; }
tbody th { font-weight: 600; min-width: 10rem; overflow-wrap: anywhere; text-indent: -1.25rem; }
tbody th small { text-indent: 0; }
.swatch { display: inline-block; width: .8rem; height: .8rem; margin-right: .45rem;
  border-radius: 2px; vertical-align: -.08rem; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
table .words { white-space: normal; text-align: left; }
tbody .words { color: var(--faint); }
.plain tr > th:first-child { padding-left: 0; text-indent: 0; }
tbody th[scope=rowgroup] { padding-top: 1rem; }
.claims td, .claims thead th { white-space: normal; text-align: left; }
.claims tr > th:first-child { width: 40%; padding-left: 0; text-indent: 0; }
.claims .fails b { color: #b3261e; }
.claims .holds b { color: #146c2e; }
dl { margin: 0; }
dl > div { display: grid; grid-template-columns: 13rem 1fr; gap: .25rem 1rem; padding: .35rem 0;
  border-bottom: 1px solid var(--rule); }
dt { font-weight: 600; }
dd { margin: 0; }
ul.arms { list-style: none; padding: 0; margin: 0; max-width: none; display: flex;
  flex-wrap: wrap; gap: .4rem; font-variant-numeric: tabular-nums; font-size: .9rem; }
ul.arms li { border: 1px solid var(--rule); border-radius: 4px; padding: .1rem .5rem; }
ul.arms li span { color: var(--faint); }
ul.arms li.best { font-weight: 700; border-color: var(--ink); }
summary { cursor: pointer; }
pre { font: .8rem/1.45 ui-monospace, Menlo, Consolas, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; background: #f6f7f8; padding: 1rem; border-radius: 4px; }
@media (max-width: 40rem) {
  dl > div { grid-template-columns: 1fr; gap: 0; }
  .modebar-container { display: none !important; }
}
@media screen and (max-width: 40rem) {
  table:not(.claims) tr > :first-child { position: sticky; left: 0; background: #fff; }
  tbody th { min-width: 8rem; }
  .claims, .claims tbody { display: block; }
  .claims thead { display: none; }
  .claims tbody tr { display: grid; grid-template-columns: 1fr auto; padding: .45rem 0;
    border-bottom: 1px solid var(--rule); }
  .claims tbody th { grid-column: 1 / -1; }
  .claims tr > th:first-child { width: auto; }
  .claims tbody th, .claims tbody td { border: 0; padding: .1rem 0; }
  .claims td:last-child { padding-left: 1rem; }
}
@media print {
  @page { size: A4 landscape; margin: 12mm; }
  html { font-size: 9.5pt; }
  body { max-width: none; padding: 0; }
  h2 { margin-top: 1.25rem; padding-top: .5rem; }
  h3 { margin-top: 1.25rem; }
  h1, h2, h3, p:has(+ :is(h3, figure, dl, ul, pre, .scroll)) { break-after: avoid; }
  section:has(h3 ~ .chart-frame), .scroll + h3:has(~ .chart-frame) { break-before: page; }
  section:has(h3 ~ .chart-frame) > h2, .scroll + h3:has(~ .chart-frame) { margin-top: 0; }
  p, ul, dl, figcaption { max-width: none; }
  p { margin: .5rem 0; }
  p, figure, tr, dl > div, ul.arms, li, table:not(:has(tbody + tbody, tr:nth-child(13))),
    tbody:has(th[scope=rowgroup]) { break-inside: avoid; }
  thead { display: table-header-group; }
  .scroll { overflow: visible; }
  table { font-size: 7.5pt; width: 100%; }
  table th, table td { padding: .2rem .3rem; }
  tbody th { min-width: 0; }
  .claims small { display: inline; }
  .chart, .screen, summary, details:not([open]) { display: none; }
  .chart-frame img, .chart-frame.live img { display: block; }
  figure { margin: .5rem 0; }
  figure img { max-width: 100%; max-height: 92mm; }
  h3 ~ .chart-frame img { max-height: 72mm; }
}
"""

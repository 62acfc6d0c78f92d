"""The look of a report's page: light and dark, on wide screens, on telephones and on paper."""

STYLE = """
:root {
  --paper: #fbfbfa; --card: #ffffff; --ink: #1c2126; --muted: #5b6670; --line: #e1e5e8; --soft: #f1f3f5;
  --good: #087f5b; --bad: #b42318; --going: #0b6bb5;
  --shadow: 0 1px 2px rgb(20 30 40 / .05), 0 6px 20px rgb(20 30 40 / .05);
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #12161a; --card: #191f24; --ink: #e8ebee; --muted: #9aa5af; --line: #2c343b; --soft: #20272d;
    --good: #3ecf9a; --bad: #ff8a7a; --going: #6bb8f2; --shadow: none;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 68rem; margin: 0 auto; padding: 3rem 1.5rem 4rem; }
header { margin-bottom: 2.25rem; }
.eyebrow { margin: 0; color: var(--muted); font-size: .8rem; letter-spacing: .08em; text-transform: uppercase; }
h1 { margin: .2rem 0 .5rem; font-size: clamp(1.7rem, 5vw, 2.5rem); line-height: 1.15; letter-spacing: -.02em; }
h2 { margin: 3rem 0 1rem; font-size: 1.45rem; letter-spacing: -.01em; line-height: 1.25; }
h3 { margin: 1.75rem 0 .6rem; font-size: 1rem; }
p { margin: 0 0 .75rem; max-width: 46rem; }
.card > p:last-child, .gallery p:last-child { margin-bottom: .15rem; }
.lead { font-size: 1.06rem; }
.quiet, figcaption, footer { color: var(--muted); font-size: .88rem; }
code { font: .88em ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
h1, h2, p, figcaption { overflow-wrap: anywhere; }
td, th { overflow-wrap: break-word; }
td code, th code { display: inline-block; max-width: 20rem; overflow-wrap: break-word; }
.card {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px; box-shadow: var(--shadow);
  padding: 1.1rem 1.25rem; margin: 0 0 1.1rem;
}
figure { margin: 0; }
figure.card > figcaption { margin-bottom: .6rem; }
figcaption strong { color: var(--ink); font-size: 1rem; display: block; }
.plot img { display: block; width: 100%; height: auto; }
.scroll { overflow-x: auto; margin: 0 -1.25rem; padding: 0 1.25rem; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: .9rem; }
th, td { padding: .5rem .9rem .5rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
tr:last-child > td, tr:last-child > th { border-bottom: 0; }
th:last-child, td:last-child { padding-right: 0; }
thead th { color: var(--muted); font-weight: 600; font-size: .8rem; line-height: 1.3; vertical-align: bottom; }
tbody th { font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; overflow-wrap: normal; }
.interval { display: block; color: var(--muted); font-size: .8rem; }
.nowrap { white-space: nowrap; overflow-wrap: normal; }
.label { overflow-wrap: break-word; }
th:has(.label), td:has(.label) { min-width: 9rem; max-width: 16rem; }
.swatch {
  display: inline-block; width: .75em; height: .75em; border-radius: 50%; margin-right: .5em; vertical-align: -.02em;
  background: var(--light);
}
@media screen and (prefers-color-scheme: dark) { .swatch { background: var(--dark); } }
.solved { color: var(--good); } .killed, .unknown { color: var(--bad); }
.running, .starting, .stopping { color: var(--going); }
.notes { color: var(--bad); display: block; font-size: .8rem; }
section > .card.table:only-child { margin-top: 3rem; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(12.5rem, 1fr)); gap: 1rem; }
.gallery .card { margin: 0; padding: .8rem; break-inside: avoid; }
.gallery img, .gallery video {
  display: block; width: 100%; height: auto; border-radius: 6px; background: var(--soft); margin-bottom: .6rem;
}
.gallery .pixels { image-rendering: pixelated; }
.still { display: none !important; }
@media print, (prefers-reduced-motion: reduce) {
  .moving { display: none !important; }
  .still { display: block !important; }
}
details > summary { cursor: pointer; font-weight: 600; }
details[open] > summary { margin-bottom: .6rem; }
footer { margin-top: 3rem; padding-top: 1.25rem; border-top: 1px solid var(--line); }
@media (max-width: 36rem) {
  main { padding: 1.75rem 1rem 3rem; }
  .card { padding: .9rem; border-radius: 10px; }
  .scroll { margin: 0 -.9rem; padding: 0 .9rem; }
  th:has(.label), td:has(.label) { min-width: 7rem; }
  th code { max-width: 9rem; }
  th:first-child { position: sticky; left: 0; background: var(--card); padding-left: .9rem; }
  td:first-child { padding-left: .9rem; }
  .scroll { padding-left: 0; }
  .gallery { grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: .7rem; }
}
@media print {
  @page { margin: 14mm; }
  body { font-size: 10.5pt; background: none; }
  main { padding: 0; max-width: none; }
  .card { box-shadow: none; break-inside: avoid; }
  .scroll { overflow: visible; }
  .table.card { break-inside: auto; }
  tr, footer { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
}
"""

"""How the page looks: on paper, on a telephone, by day and by night. No rule loads anything."""

from typing import Final

# Told apart by those who see fewer colours as well; from the fifth on a line is dashed, too.
STYLE: Final = """\
:root{color-scheme:light dark;--bg:#ffffff;--panel:#f6f7f9;--text:#1b1f24;--soft:#57606a;
--grid:#d9dde2;--level:#3a3f45;--heat:#a02c00;--warn:#8a3a00;
--c0:#0072b2;--c1:#c44e00;--c2:#00805d;--c3:#a3457f;--c4:#8f6a00;--c5:#2b7fb8;--c6:#6b4fbb;
--c7:#5b6470}
@media screen and (prefers-color-scheme:dark){:root{--bg:#14171b;--panel:#1c2026;--text:#e8eaed;
--soft:#a5adb8;--grid:#333a43;--level:#d0d5db;--heat:#ff9a62;--warn:#ffb37a;
--c0:#56b4e9;--c1:#ff8c42;--c2:#2fc99a;--c3:#e79ac3;--c4:#f0c440;--c5:#9ecbff;--c6:#b9a3ff;
--c7:#b4bcc6}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:68rem;padding:1rem;background:var(--bg);color:var(--text);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}
h2{font-size:1.2rem;margin:2.2rem 0 .3rem;border-top:1px solid var(--grid);padding-top:1rem}
p{margin:.4rem 0}
.soft,.note,.axes{color:var(--soft);font-size:.85rem}
.missing{border-left:4px solid var(--warn);background:var(--panel);padding:.5rem .8rem;
margin:.6rem 0}
code{font:.85em ui-monospace,monospace}
nav ul{columns:15rem;column-gap:2rem;padding-left:1.2rem;margin:.5rem 0}
a{color:var(--c0)}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(10rem,1fr));gap:.6rem;
margin:1rem 0;padding:0}
.facts div{background:var(--panel);border-radius:.4rem;padding:.5rem .7rem}
.facts dt{color:var(--soft);font-size:.8rem}
.facts dd{margin:0;font-size:1.15rem;font-weight:600}
.facts small{font-weight:400;color:var(--soft)}
figure{margin:1rem 0 1.4rem}
figcaption{font-weight:600}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem 1rem;padding:0;margin:.2rem 0;
font-size:.85rem}
.key{width:22px;height:10px;margin-right:.35rem}
.plot{margin-top:.7rem;display:grid;grid-template-columns:3.2rem 1fr;
grid-template-rows:15rem 1.4rem}
.y,.x{position:relative;font-size:.75rem;color:var(--soft)}
.y span{position:absolute;right:.4rem;transform:translateY(50%);white-space:nowrap}
.x{grid-column:2;height:1.2rem}
.x span{position:absolute;top:.15rem;white-space:nowrap}
.area-of{width:100%;height:100%;display:block;overflow:visible}
path{fill:none;vector-effect:non-scaling-stroke;stroke-width:1.6}
.grid{stroke:var(--grid);stroke-width:1}
.level{stroke:var(--level);stroke-width:1.4;stroke-dasharray:2 3}
.l1{stroke-dasharray:9 4}
.area{fill:var(--soft);fill-opacity:.22;stroke:none}
.key .area{stroke:var(--soft);stroke-opacity:.45;stroke-width:9}
.point{stroke-width:9;stroke-linecap:round}
.line{stroke-linecap:round;stroke-linejoin:round}
rect{shape-rendering:crispEdges}
.cell{fill:var(--heat)}
path.c0{stroke:var(--c0)}path.c1{stroke:var(--c1)}path.c2{stroke:var(--c2)}
path.c3{stroke:var(--c3)}path.c4{stroke:var(--c4);stroke-dasharray:7 3}
path.c5{stroke:var(--c5);stroke-dasharray:7 3}path.c6{stroke:var(--c6);stroke-dasharray:2 3}
path.c7{stroke:var(--c7);stroke-dasharray:2 3}
path.point{stroke-dasharray:none}
.key path{stroke-width:3}.key .level{stroke-width:2}
rect.c0{fill:var(--c0)}rect.c1{fill:var(--c1)}rect.c2{fill:var(--c2)}rect.c3{fill:var(--c3)}
rect.c4{fill:var(--c4)}rect.c5{fill:var(--c5)}rect.c6{fill:var(--c6)}rect.c7{fill:var(--c7)}
.strip{display:grid;grid-template-columns:23rem 1fr;gap:0 .6rem;align-items:center}
.strip svg{width:100%;height:1.15rem;background:var(--panel);display:block}
.strip+.strip{margin-top:2px}
.who{font-size:.78rem;text-align:right;line-height:1.2}
.feet .x{grid-column:2}
.shades i{display:inline-block;width:1.4rem;height:.7rem;background:var(--heat)}
details{margin:.3rem 0}
summary{cursor:pointer;font-size:.85rem;color:var(--soft)}
.scroll{overflow-x:auto;margin:.4rem 0}
details .scroll{max-height:26rem;overflow-y:auto}
table{border-collapse:collapse;font-size:.82rem}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{padding:.2rem .6rem .2rem 0;text-align:left;border-bottom:1px solid var(--grid);
vertical-align:top;overflow-wrap:normal}
th{position:sticky;top:0;background:var(--bg);vertical-align:bottom}
td:first-child:not(.n){min-width:7.5rem}
th small{color:var(--soft);font-weight:400;white-space:nowrap}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
@media (max-width:44rem){body{padding:.7rem}.strip{grid-template-columns:1fr}
.who{text-align:left}.strip+.strip{margin-top:.35rem}.feet .x{grid-column:1}
.plot{grid-template-columns:2.8rem 1fr;grid-template-rows:12rem 1.4rem}}
@media print{body{max-width:none;font-size:10pt;padding:0}
nav{display:none}figure,.strip,tr{break-inside:avoid}h2{break-after:avoid}
.scroll{max-height:none;overflow:visible}summary{display:none}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""

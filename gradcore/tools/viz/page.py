"""Self-contained HTML page around a drawing, with zoom, pan and details of the vertex under the mouse."""

from __future__ import annotations

from gradcore.tools.viz.markup import escape

__all__ = ["page"]

STYLE = """
:root { color-scheme: light dark; }
body { margin: 0; font: 14px system-ui, sans-serif; background: Canvas; color: CanvasText; }
#view { width: 100vw; height: 100vh; overflow: hidden; cursor: grab; touch-action: none; }
#view:active { cursor: grabbing; }
#view > svg { transform-origin: 0 0; }
#tip { position: fixed; display: none; max-width: 36em; padding: 8px 12px; border-radius: 8px; pointer-events: none;
  white-space: pre-wrap; font: 12px/1.5 ui-monospace, monospace; background: #0f172a; color: #e2e8f0;
  box-shadow: 0 4px 18px #0006; }
.dim { opacity: 0.25; }
.link.on .edge { stroke: #f59e0b; stroke-width: 2.4; }
.link.on .arrow { fill: #f59e0b; }
"""

SCRIPT = """
const view = document.getElementById("view"), svg = view.querySelector("svg"), tip = document.getElementById("tip");
let scale = 1, x = 0, y = 0, from = null;
const show = () => svg.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
const fit = () => {
  const box = svg.viewBox.baseVal;
  scale = Math.min(1, innerWidth / box.width, innerHeight / box.height);
  x = (innerWidth - box.width * scale) / 2; y = Math.max(0, (innerHeight - box.height * scale) / 2); show();
};
view.addEventListener("wheel", e => {
  e.preventDefault();
  const by = Math.exp(-e.deltaY / 500), next = Math.min(8, Math.max(0.02, scale * by));
  x = e.clientX - (e.clientX - x) * next / scale; y = e.clientY - (e.clientY - y) * next / scale; scale = next; show();
}, {passive: false});
view.addEventListener("pointerdown", e => {
  from = [e.clientX - x, e.clientY - y]; view.setPointerCapture(e.pointerId);
});
view.addEventListener("pointermove", e => { if (from) { x = e.clientX - from[0]; y = e.clientY - from[1]; show(); } });
view.addEventListener("pointerup", () => from = null);
view.addEventListener("dblclick", fit);
const links = [...svg.querySelectorAll(".link")];
for (const card of svg.querySelectorAll(".vertex")) {
  const title = card.querySelector("title"), text = title.textContent, id = card.id.slice(1);
  title.remove();
  card.addEventListener("pointerenter", () => {
    tip.textContent = text; tip.style.display = "block";
    for (const link of links) {
      const on = link.dataset.from === id || link.dataset.to === id;
      link.classList.toggle("on", on); link.classList.toggle("dim", !on);
    }
  });
  card.addEventListener("pointermove", e => {
    tip.style.left = Math.min(e.clientX + 16, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(e.clientY + 16, innerHeight - tip.offsetHeight - 8) + "px";
  });
  card.addEventListener("pointerleave", () => {
    tip.style.display = "none";
    for (const link of links) link.classList.remove("on", "dim");
  });
}
addEventListener("resize", fit); fit();
"""


def page(drawing: str, title: str) -> str:
    """Return a complete HTML page with the drawing in it."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n"
        f'<div id="view">{drawing}</div><div id="tip"></div>\n<script>{SCRIPT}</script>\n</body>\n</html>\n'
    )

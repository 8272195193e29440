"use strict";
// Whether the page's updates arrive; the style sheet says it in words.
const root = document.documentElement;
document.addEventListener("htmx:sse:after:connection", () => { root.dataset.stream = "on"; });
document.addEventListener("htmx:sse:error", () => { root.dataset.stream = "lost"; });
document.addEventListener("htmx:sse:after:message", () => { root.dataset.stream = "on"; });

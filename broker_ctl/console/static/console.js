"use strict";
// Whether the page's updates arrive, in words, for eyes and for screen readers.
const stream = document.getElementById("stream");
function say(state, words) {
  if (stream && stream.dataset.state !== state) {
    stream.dataset.state = state;
    stream.textContent = words;
  }
}
document.addEventListener("htmx:sse:after:message", () => say("on", "live"));
document.addEventListener("htmx:sse:error", () => say("lost", "connection lost, trying again"));
document.addEventListener("htmx:response:error", () => say("off", "not live: reload to update"));

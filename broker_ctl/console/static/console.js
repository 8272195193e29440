"use strict";
// Whether the page's updates arrive, in words, for eyes and for screen readers.
const stream = document.getElementById("stream");
const AGAIN_MS = 2000;
// Only another sign-in or another page can mend these.
const FINAL = [401, 403, 404];
function say(state, words) {
  if (stream && stream.dataset.state !== state) {
    stream.dataset.state = state;
    stream.textContent = words;
  }
}
function lost() {
  say("lost", "connection lost, trying again");
}
// The extension tries again once it has been connected; the first connection is left to the page.
function again() {
  lost();
  setTimeout(() => htmx.trigger(document.getElementById("updated"), "again"), AGAIN_MS);
}
document.addEventListener("htmx:sse:after:message", () => say("on", "live"));
document.addEventListener("htmx:sse:error", lost);
document.addEventListener("htmx:error", again);
document.addEventListener("htmx:response:error", event => {
  if (FINAL.includes(event.detail.ctx.response.status)) say("off", "not live: reload to update");
  else again();
});

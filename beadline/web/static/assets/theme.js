// Runs before the first paint, so that a page kept dark never flashes light.
(() => {
  try {
    const kept = localStorage.getItem("beadline.theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // Without storage the system's choice holds.
  }
})();

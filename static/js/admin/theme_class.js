/* Runs before the first paint: unfold's stylesheet switches to dark by a class, set from the user's preference or the system's. */
(() => {
  const root = document.documentElement;
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const updateClass = () => root.classList.toggle(
    "dark",
    root.dataset.theme === "dark" || (root.dataset.theme !== "light" && systemDark.matches),
  );
  updateClass();
  systemDark.addEventListener("change", updateClass);
})();

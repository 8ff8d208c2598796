/* Runs before the first paint: sets the class for unfold's dark mode, according to the user's or the system's preference. */
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

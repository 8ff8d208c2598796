/* Runs before the first paint: unfold's stylesheet switches to dark by a class, set from the user's preference or the system's. */
(() => {
  const page = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => page.classList.toggle("dark", page.dataset.theme === "dark" || (page.dataset.theme !== "light" && system.matches));
  follow();
  system.addEventListener("change", follow);
})();

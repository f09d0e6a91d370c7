// Narrows the list of operations to those that hold what is typed. The page is whole without it.
const search = document.getElementById("search");
search.addEventListener("input", () => {
  const wanted = search.value.trim().toLowerCase();
  for (const group of document.querySelectorAll("nav .group")) {
    let shown = 0;
    for (const item of group.querySelectorAll("li")) {
      item.hidden = !item.textContent.toLowerCase().includes(wanted);
      shown += item.hidden ? 0 : 1;
    }
    group.hidden = shown === 0;
  }
});

// Two comforts; every page works without them. Copying a key's value, and a question before it is left uncopied.
let copied = false;

for (const button of document.querySelectorAll("[data-copy]")) {
  const field = document.getElementById(button.dataset.copy);
  const said = button.parentElement.querySelector("[data-copied]");
  button.hidden = false;
  field.addEventListener("copy", () => { copied = true; });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(field.value);
      copied = true;
      said.textContent = "Copied.";
    } catch {
      field.focus();
      field.select();
      said.textContent = "The browser does not let the page copy. The value is selected: press Ctrl-C or ⌘-C.";
    }
  });
}

for (const link of document.querySelectorAll("[data-confirm]")) {
  link.addEventListener("click", (event) => {
    if (!copied && !window.confirm(link.dataset.confirm)) event.preventDefault();
  });
}

// What is shown once does not stay in the page that the browser may keep for "back".
window.addEventListener("pagehide", () => {
  for (const field of document.querySelectorAll("[data-once]")) field.value = "";
});

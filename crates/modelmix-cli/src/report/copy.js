// Copies the text next to a button. Without scripts the buttons stay hidden and the text can be selected by hand.
for (const button of document.querySelectorAll(".copy button")) {
  const code = button.parentElement.querySelector("code");
  const say = (text) => {
    button.textContent = text;
    setTimeout(() => (button.textContent = "Copy"), 2000);
  };
  const select = () => {
    const range = document.createRange();
    range.selectNodeContents(code);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  };
  const copySelected = () => {
    select();
    say(document.execCommand("copy") ? "Copied" : "Press Ctrl+C");
  };
  button.hidden = false;
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", () => {
    // Some browsers have no clipboard for pages that are opened from a file.
    if (!navigator.clipboard) return copySelected();
    navigator.clipboard.writeText(code.textContent).then(() => say("Copied"), copySelected);
  });
}

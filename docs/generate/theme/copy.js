// A console shows commands and what they print. The theme's button copies `data-copy`: the commands, without their prompts.
for (const code of document.querySelectorAll("pre > code")) {
  const commands = []
  let continued = false
  for (const line of code.textContent.split("\n")) {
    const prompt = line.startsWith("$ ")
    if (prompt || continued) commands.push(prompt ? line.slice(2) : line)
    continued = (prompt || continued) && line.endsWith("\\")
  }
  if (commands.length) code.dataset.copy = commands.join("\n")
}

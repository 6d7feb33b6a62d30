// Follows jobs by server-sent events. Text is set as text, never as HTML: a job's messages may come from strangers.

const jobs = document.querySelector("#jobs");
const template = document.querySelector("#job");
const problem = document.querySelector("#problem");

async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body ?? {}),
  });
  const data = await answer.json();
  if (!answer.ok) throw new Error(typeof data.detail === "string" ? data.detail : `error ${answer.status}`);
  return data;
}

function follow(id) {
  const line = template.content.cloneNode(true).querySelector("li");
  const part = (name) => line.querySelector(`.${name}`);
  line.id = id;
  part("id").textContent = id;
  jobs.prepend(line);

  const show = (percent) => {
    line.querySelector("progress").value = percent;
    part("percent").textContent = `${Math.round(percent)} %`;
  };
  // The browser reconnects by itself, and sends the number of the last event: no line is lost or shown twice.
  const events = new EventSource(`/jobs/${id}/events`);
  events.addEventListener("progress", (event) => {
    const entry = JSON.parse(event.data);
    part("state").textContent = "running";
    if (entry.progress !== null) show(entry.progress);
    part("message").textContent = entry.message;
  });
  events.addEventListener("end", (event) => {
    events.close();
    const job = JSON.parse(event.data);
    part("state").textContent = job.state;
    part("cancel").hidden = true;
    part("message").textContent = job.error ?? "";
    if (job.state === "completed") show(100);
    for (const name of job.files) {
      const link = part("file");
      link.href = `/jobs/${id}/files/${encodeURIComponent(name)}`;
      link.textContent = name;
      link.hidden = false;
    }
  });
  part("cancel").addEventListener("click", () =>
    post(`/jobs/${id}/cancel`).catch((error) => (problem.value = error.message)),
  );
}

document.querySelector("#new").addEventListener("submit", async (event) => {
  event.preventDefault();
  problem.value = "";
  const wanted = new FormData(event.target);
  try {
    const job = await post("/jobs", { project: wanted.get("project"), pages: Number(wanted.get("pages")) });
    follow(job.id);
  } catch (error) {
    problem.value = error.message;
  }
});

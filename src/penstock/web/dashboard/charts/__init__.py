"""Charts, drawn on the server as SVG: job_charts (throughput, progress, attempts), lineage_chart, heat_map."""

// node.mjs replays the files of a folder in node, and prints a line of JSON for each.
import { readdirSync, readFileSync } from "node:fs";
import * as volley from "./volley.js";
import { replay } from "./replay.js";

const dir = process.argv[2];
for (const name of readdirSync(dir).sort()) {
  console.log(JSON.stringify({ name, ...(await replay(volley, name, readFileSync(dir + "/" + name, "utf8"))) }));
}

import * as vitest from "vitest";
import stories from "./stories.cjs";

stories(vitest.test, vitest);

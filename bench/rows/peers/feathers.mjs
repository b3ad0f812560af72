// Feathers serves a table as REST, with its adapter for Knex and its server for Koa, as its generator lays them out. A PATCH reads the
// row's id, updates the row, and reads it: three statements.
import { once } from "node:events";
import { feathers } from "@feathersjs/feathers";
import { KnexService } from "@feathersjs/knex";
import { bodyParser, errorHandler, koa, rest } from "@feathersjs/koa";
import knex from "knex";

const db = knex({
  client: "pg",
  connection: { connectionString: process.env.BENCH_DATABASE_URL },
  // A connection that is idle for a second is closed: the server has not enough of them for all who take turns.
  pool: { min: 0, max: Number(process.env.BENCH_POOL), idleTimeoutMillis: 1000, reapIntervalMillis: 500 },
});
const app = koa(feathers());
app.use(errorHandler());
app.use(bodyParser());
app.configure(rest());
app.use("wallets", new KnexService({ Model: db, name: "wallets", id: "id" }));

const server = await app.listen(0, "127.0.0.1");
if (!server.listening) await once(server, "listening");
console.log(`ready on http://127.0.0.1:${server.address().port}`);

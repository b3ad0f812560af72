// PostGraphile serves the tables of a database as GraphQL. Its settings are those that its documentation gives for production: the
// Amber preset, no IDE, no watching, no explaining, no websockets.
import { createServer } from "node:http";
import { postgraphile } from "postgraphile";
import { makePgService } from "postgraphile/adaptors/pg";
import { grafserv } from "postgraphile/grafserv/node";
import { PostGraphileAmberPreset } from "postgraphile/presets/amber";

const service = postgraphile({
  extends: [PostGraphileAmberPreset],
  pgServices: [
    makePgService({
      connectionString: process.env.BENCH_DATABASE_URL,
      schemas: ["public"],
      // A connection that is idle for a second is closed: the server has not enough of them for all who take turns.
      poolConfig: { max: Number(process.env.BENCH_POOL), idleTimeoutMillis: 1000 },
    }),
  ],
  grafast: { explain: false },
  grafserv: { graphiql: false, watch: false, websockets: false },
}).createServ(grafserv);

const server = createServer();
await service.addTo(server);
await service.getSchema();
server.listen(0, "127.0.0.1", () => console.log(`ready on http://127.0.0.1:${server.address().port}`));

-- A database of schema 1 with a few rows, as that schema's tables made it. Never edited.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE account (
  id VARCHAR NOT NULL,
  project_id VARCHAR NOT NULL,
  model_settled INTEGER NOT NULL,
  model_uncertain INTEGER NOT NULL,
  model_reserved INTEGER NOT NULL,
  device_settled INTEGER NOT NULL,
  device_reserved INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  device_ms INTEGER NOT NULL,
  model_cap INTEGER,
  total_cap INTEGER,
  requests_cap INTEGER,
  PRIMARY KEY (id)
);
INSERT INTO "account" VALUES('run:sums','prj_local',120,0,0,0,0,3,0,1000000,NULL,NULL);
CREATE TABLE apikey (
  id VARCHAR NOT NULL,
  project_id VARCHAR NOT NULL,
  name VARCHAR NOT NULL,
  key_hash VARCHAR NOT NULL,
  capabilities JSON NOT NULL,
  created_at VARCHAR NOT NULL,
  expires_at VARCHAR,
  last_used_at VARCHAR,
  revoked_at VARCHAR,
  PRIMARY KEY (id),
  FOREIGN KEY(project_id) REFERENCES project (id),
  UNIQUE (key_hash)
);
INSERT INTO "apikey" VALUES('k1','prj_local','ci','abababababababababababababababababababababababababababababababab','["read"]','2026-01-05T08:00:00.000Z',NULL,NULL,NULL);
CREATE TABLE audit (
  id INTEGER NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR NOT NULL,
  round INTEGER NOT NULL,
  type VARCHAR NOT NULL,
  version VARCHAR,
  phase VARCHAR NOT NULL,
  verdict VARCHAR NOT NULL,
  reasons JSON NOT NULL,
  tool JSON NOT NULL,
  created_at VARCHAR NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(run) REFERENCES run (id)
);
CREATE TABLE checkpoint (
  id VARCHAR NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR,
  round INTEGER,
  job VARCHAR,
  base_model VARCHAR NOT NULL,
  base_revision VARCHAR NOT NULL,
  size_bytes INTEGER NOT NULL,
  training JSON NOT NULL,
  simulated BOOLEAN NOT NULL,
  created_at VARCHAR NOT NULL,
  PRIMARY KEY (id)
);
INSERT INTO "checkpoint" VALUES('0123456789abcdef','prj_local','sums',1,NULL,'sim/student','r',1234,'{"steps": 20}',1,'2026-01-05T08:00:00.000Z');
CREATE TABLE child (
  id INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  pgid INTEGER NOT NULL,
  started VARCHAR NOT NULL,
  command VARCHAR NOT NULL,
  purpose VARCHAR NOT NULL,
  ended_at VARCHAR,
  PRIMARY KEY (id)
);
CREATE TABLE control (
  id INTEGER NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR NOT NULL,
  action VARCHAR NOT NULL,
  rounds INTEGER,
  limits JSON NOT NULL,
  author VARCHAR NOT NULL,
  status VARCHAR NOT NULL,
  created_at VARCHAR NOT NULL,
  done_at VARCHAR,
  PRIMARY KEY (id),
  FOREIGN KEY(run) REFERENCES run (id)
);
CREATE TABLE directive (
  id VARCHAR NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR NOT NULL,
  text VARCHAR NOT NULL,
  author VARCHAR NOT NULL,
  created_at VARCHAR NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(run) REFERENCES run (id)
);
CREATE TABLE draw (
  run VARCHAR NOT NULL,
  split VARCHAR NOT NULL,
  family VARCHAR NOT NULL,
  next_index INTEGER NOT NULL,
  PRIMARY KEY (run, split, family)
);
CREATE TABLE evaluation (
  id INTEGER NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR,
  round INTEGER NOT NULL,
  version VARCHAR NOT NULL,
  version_hash VARCHAR NOT NULL,
  suite VARCHAR NOT NULL,
  split VARCHAR NOT NULL,
  repeat INTEGER NOT NULL,
  protocol_hash VARCHAR NOT NULL,
  protocol JSON NOT NULL,
  planned INTEGER NOT NULL,
  scored INTEGER NOT NULL,
  mean FLOAT,
  low FLOAT,
  high FLOAT,
  conservative FLOAT,
  families JSON NOT NULL,
  simulated BOOLEAN NOT NULL,
  seconds FLOAT NOT NULL,
  created_at VARCHAR NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (run, round, version, suite, split, repeat),
  FOREIGN KEY(run) REFERENCES run (id)
);
CREATE TABLE event (
  id INTEGER NOT NULL,
  run VARCHAR NOT NULL,
  seq INTEGER NOT NULL,
  kind VARCHAR NOT NULL,
  role VARCHAR NOT NULL,
  tool VARCHAR,
  text VARCHAR NOT NULL,
  at VARCHAR NOT NULL,
  PRIMARY KEY (id)
);
INSERT INTO "event" VALUES(1,'sums',1,'message','engine',NULL,'run started','2026-01-05T08:00:00.000Z');
INSERT INTO "event" VALUES(2,'sums',2,'round','engine',NULL,'round 1 of 1 starts','2026-01-05T08:00:00.000Z');
INSERT INTO "event" VALUES(3,'sums',3,'message','engine',NULL,'run finished','2026-01-05T08:00:00.000Z');
CREATE TABLE gatewaymodel (
  name VARCHAR NOT NULL,
  base_url VARCHAR,
  key_env VARCHAR,
  role VARCHAR,
  input_micro_per_mtok INTEGER NOT NULL,
  output_micro_per_mtok INTEGER NOT NULL,
  cached_micro_per_mtok INTEGER,
  simulated BOOLEAN NOT NULL,
  created_at VARCHAR NOT NULL,
  PRIMARY KEY (name)
);
INSERT INTO "gatewaymodel" VALUES('sim/operator',NULL,NULL,'operator',1000000,2000000,NULL,1,'2026-01-05T08:00:00.000Z');
CREATE TABLE harness (
  id VARCHAR NOT NULL,
  project_id VARCHAR NOT NULL,
  spec JSON NOT NULL,
  created_at VARCHAR NOT NULL,
  PRIMARY KEY (id)
);
INSERT INTO "harness" VALUES('h1','prj_local','{"system": "Answer with \u2018just\u2019 a number."}','2026-01-05T08:00:00.000Z');
CREATE TABLE job (
  id VARCHAR NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR,
  round INTEGER,
  type VARCHAR NOT NULL,
  status VARCHAR NOT NULL,
  reason VARCHAR,
  labels JSON NOT NULL,
  spec JSON NOT NULL,
  result JSON NOT NULL,
  bookkeeping BOOLEAN NOT NULL,
  request_id VARCHAR,
  created_at VARCHAR NOT NULL,
  updated_at VARCHAR NOT NULL,
  finished_at VARCHAR,
  PRIMARY KEY (id)
);
CREATE TABLE lease (
  id INTEGER NOT NULL,
  project_id VARCHAR NOT NULL,
  device VARCHAR NOT NULL,
  run VARCHAR,
  round INTEGER,
  purpose VARCHAR NOT NULL,
  reservation INTEGER,
  active_ms INTEGER NOT NULL,
  state VARCHAR NOT NULL,
  started_at VARCHAR NOT NULL,
  renewed_at VARCHAR NOT NULL,
  ended_at VARCHAR,
  PRIMARY KEY (id)
);
CREATE TABLE ledgerentry (
  id INTEGER NOT NULL,
  account VARCHAR NOT NULL,
  reservation INTEGER,
  kind VARCHAR NOT NULL,
  category VARCHAR NOT NULL,
  amount INTEGER NOT NULL,
  at VARCHAR NOT NULL,
  PRIMARY KEY (id)
);
CREATE TABLE live (
  run VARCHAR NOT NULL,
  round INTEGER NOT NULL,
  phase VARCHAR,
  role VARCHAR,
  tool VARCHAR,
  text VARCHAR,
  done INTEGER,
  total INTEGER,
  started_at VARCHAR,
  updated_at VARCHAR NOT NULL,
  PRIMARY KEY (run)
);
CREATE TABLE modelcall (
  id INTEGER NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR,
  round INTEGER NOT NULL,
  step VARCHAR NOT NULL,
  call_key VARCHAR NOT NULL,
  attempt INTEGER NOT NULL,
  role VARCHAR NOT NULL,
  model VARCHAR NOT NULL,
  simulated BOOLEAN NOT NULL,
  request_hash VARCHAR NOT NULL,
  reservation INTEGER,
  status VARCHAR NOT NULL,
  text VARCHAR,
  usage JSON NOT NULL,
  price JSON NOT NULL,
  cost INTEGER,
  error VARCHAR,
  started_at VARCHAR NOT NULL,
  ended_at VARCHAR,
  PRIMARY KEY (id),
  UNIQUE (run, round, step, call_key, attempt)
);
CREATE TABLE project (
  id VARCHAR NOT NULL,
  workspace_id VARCHAR NOT NULL,
  name VARCHAR NOT NULL,
  created_at VARCHAR NOT NULL,
  PRIMARY KEY (id)
);
INSERT INTO "project" VALUES('prj_local','ws_local','local','2026-01-05T08:00:00.000Z');
CREATE TABLE reservation (
  id INTEGER NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR,
  kind VARCHAR NOT NULL,
  accounts JSON NOT NULL,
  amount INTEGER NOT NULL,
  actual INTEGER,
  state VARCHAR NOT NULL,
  note VARCHAR,
  created_at VARCHAR NOT NULL,
  settled_at VARCHAR,
  PRIMARY KEY (id)
);
CREATE TABLE round (
  id INTEGER NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  start_version VARCHAR NOT NULL,
  "plan" JSON NOT NULL,
  hypothesis VARCHAR,
  rows INTEGER,
  candidate VARCHAR,
  outcome VARCHAR,
  decision VARCHAR,
  reason VARCHAR,
  evidence JSON NOT NULL,
  started_at VARCHAR NOT NULL,
  ended_at VARCHAR,
  PRIMARY KEY (id),
  UNIQUE (run, number),
  FOREIGN KEY(run) REFERENCES run (id)
);
INSERT INTO "round" VALUES(1,'prj_local','sums',1,'base','{}',NULL,40,'candidate-1','completed','promote','better by 12 points','{}','2026-01-05T08:00:00.000Z','2026-01-05T08:00:00.000Z');
CREATE TABLE run (
  id VARCHAR NOT NULL,
  project_id VARCHAR NOT NULL,
  workspace_id VARCHAR NOT NULL,
  actor VARCHAR NOT NULL,
  brief VARCHAR NOT NULL,
  domain VARCHAR NOT NULL,
  mode VARCHAR NOT NULL,
  simulated BOOLEAN NOT NULL,
  base_model VARCHAR NOT NULL,
  config JSON NOT NULL,
  limits JSON NOT NULL,
  seed INTEGER,
  secret VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  reason VARCHAR,
  rounds_target INTEGER NOT NULL,
  round INTEGER NOT NULL,
  best_version VARCHAR,
  created_at VARCHAR NOT NULL,
  updated_at VARCHAR NOT NULL,
  ended_at VARCHAR,
  PRIMARY KEY (id),
  FOREIGN KEY(project_id) REFERENCES project (id)
);
INSERT INTO "run" VALUES('sums','prj_local','ws_local','owner','learn sums','arith','live',1,'sim/student','{"train_from": "base"}','{"max_model_cost_usd": 1.0}',7,'0000000000000000000000000000000000000000000000000000000000000000','finished','1 round, 1 promoted',1,1,'candidate-1','2026-01-05T08:00:00.000Z','2026-01-05T08:00:00.000Z','2026-01-05T08:00:00.000Z');
INSERT INTO "run" VALUES('half-done','prj_local','ws_local','owner','learn sums','arith','live',1,'sim/student','{"train_from": "base"}','{"max_model_cost_usd": 1.0}',7,'0000000000000000000000000000000000000000000000000000000000000000','paused','interrupted: the server stopped',3,0,NULL,'2026-01-05T08:00:00.000Z','2026-01-05T08:00:00.000Z',NULL);
CREATE TABLE sample (
  id INTEGER NOT NULL,
  evaluation INTEGER NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR,
  task VARCHAR NOT NULL,
  family VARCHAR NOT NULL,
  stratum VARCHAR NOT NULL,
  attempt INTEGER NOT NULL,
  text VARCHAR,
  parsed VARCHAR,
  score FLOAT,
  reason VARCHAR NOT NULL,
  tokens_in INTEGER NOT NULL,
  tokens_out INTEGER NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (evaluation, task, attempt),
  FOREIGN KEY(evaluation) REFERENCES evaluation (id)
);
CREATE TABLE server (
  epoch INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  started_at VARCHAR NOT NULL,
  ended_at VARCHAR,
  PRIMARY KEY (epoch)
);
INSERT INTO "server" VALUES(1,4242,'2026-01-05T08:00:00.000Z','2026-01-05T08:00:00.000Z');
CREATE TABLE setting (
  name VARCHAR NOT NULL,
  value VARCHAR NOT NULL,
  updated_at VARCHAR NOT NULL,
  PRIMARY KEY (name)
);
CREATE TABLE signin (
  token_hash VARCHAR NOT NULL,
  kind VARCHAR NOT NULL,
  user_id VARCHAR NOT NULL,
  created_at VARCHAR NOT NULL,
  expires_at VARCHAR NOT NULL,
  ended_at VARCHAR,
  PRIMARY KEY (token_hash),
  FOREIGN KEY(user_id) REFERENCES user (id)
);
INSERT INTO "signin" VALUES('cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd','session','owner','2026-01-05T08:00:00.000Z','2026-01-05T16:00:00.000Z',NULL);
CREATE TABLE steer (
  id VARCHAR NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR NOT NULL,
  text VARCHAR NOT NULL,
  author VARCHAR NOT NULL,
  status VARCHAR NOT NULL,
  reason VARCHAR,
  round INTEGER,
  created_at VARCHAR NOT NULL,
  delivered_at VARCHAR,
  PRIMARY KEY (id),
  FOREIGN KEY(run) REFERENCES run (id)
);
CREATE TABLE step (
  id INTEGER NOT NULL,
  run VARCHAR NOT NULL,
  round INTEGER NOT NULL,
  step VARCHAR NOT NULL,
  attempt INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  status VARCHAR NOT NULL,
  result JSON NOT NULL,
  error VARCHAR,
  device_seconds FLOAT NOT NULL,
  started_at VARCHAR NOT NULL,
  ended_at VARCHAR,
  PRIMARY KEY (id),
  UNIQUE (run, round, step, attempt)
);
CREATE TABLE task (
  "row" INTEGER NOT NULL,
  id VARCHAR NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR NOT NULL,
  split VARCHAR NOT NULL,
  family VARCHAR NOT NULL,
  family_version VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  round INTEGER,
  prompt VARCHAR NOT NULL,
  stratum VARCHAR NOT NULL,
  canonical_key VARCHAR NOT NULL,
  template_id VARCHAR NOT NULL,
  worked VARCHAR NOT NULL,
  PRIMARY KEY ("row"),
  UNIQUE (run, split, family, number),
  FOREIGN KEY(run) REFERENCES run (id)
);
CREATE TABLE trainingrow (
  id INTEGER NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR NOT NULL,
  round INTEGER NOT NULL,
  family VARCHAR NOT NULL,
  stratum VARCHAR NOT NULL,
  task VARCHAR,
  canonical_key VARCHAR,
  source VARCHAR NOT NULL,
  source_model VARCHAR,
  messages JSON NOT NULL,
  completion VARCHAR NOT NULL,
  ends BOOLEAN NOT NULL,
  verifier VARCHAR,
  row_hash VARCHAR NOT NULL,
  simulated BOOLEAN NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(run) REFERENCES run (id)
);
CREATE TABLE trainpoint (
  run VARCHAR NOT NULL,
  round INTEGER NOT NULL,
  step INTEGER NOT NULL,
  loss FLOAT NOT NULL,
  seconds FLOAT NOT NULL,
  PRIMARY KEY (run, round, step)
);
CREATE TABLE user (
  id VARCHAR NOT NULL,
  name VARCHAR NOT NULL,
  role VARCHAR NOT NULL,
  password_hash VARCHAR,
  created_at VARCHAR NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (name)
);
INSERT INTO "user" VALUES('owner','owner','admin',NULL,'2026-01-05T08:00:00.000Z');
CREATE TABLE version (
  id INTEGER NOT NULL,
  project_id VARCHAR NOT NULL,
  run VARCHAR,
  name VARCHAR NOT NULL,
  role VARCHAR NOT NULL,
  round INTEGER,
  base_model VARCHAR NOT NULL,
  base_revision VARCHAR NOT NULL,
  adapter VARCHAR,
  harness VARCHAR NOT NULL,
  version_hash VARCHAR NOT NULL,
  trained_rows INTEGER,
  simulated BOOLEAN NOT NULL,
  created_at VARCHAR NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (run, name),
  FOREIGN KEY(run) REFERENCES run (id),
  FOREIGN KEY(harness) REFERENCES harness (id)
);
INSERT INTO "version" VALUES(1,'prj_local','sums','base','baseline',NULL,'sim/student','r',NULL,'h1','v0',NULL,1,'2026-01-05T08:00:00.000Z');
INSERT INTO "version" VALUES(2,'prj_local','sums','candidate-1','candidate',1,'sim/student','r','0123456789abcdef','h1','v1',40,1,'2026-01-05T08:00:00.000Z');
CREATE INDEX ix_checkpoint_run ON checkpoint (run);
CREATE UNIQUE INDEX event_run_seq ON event (run, seq);
CREATE INDEX ix_job_run ON job (run);
CREATE INDEX ix_step_run ON step (run);
CREATE INDEX ix_reservation_run ON reservation (run);
CREATE INDEX ix_ledgerentry_account ON ledgerentry (account);
CREATE INDEX ix_modelcall_run ON modelcall (run);
CREATE INDEX ix_lease_run ON lease (run);
CREATE INDEX ix_run_created_at ON run (created_at);
CREATE INDEX ix_run_updated_at ON run (updated_at);
CREATE INDEX ix_run_project_id ON run (project_id);
CREATE INDEX ix_directive_run ON directive (run);
CREATE INDEX ix_steer_run ON steer (run);
CREATE INDEX ix_control_run ON control (run);
CREATE INDEX ix_round_run ON round (run);
CREATE INDEX ix_version_run ON version (run);
CREATE INDEX ix_task_run ON task (run);
CREATE INDEX ix_task_id ON task (id);
CREATE INDEX ix_evaluation_run ON evaluation (run);
CREATE INDEX ix_trainingrow_run ON trainingrow (run);
CREATE INDEX ix_audit_run ON audit (run);
CREATE INDEX ix_sample_task ON sample (task);
CREATE INDEX ix_sample_evaluation ON sample (evaluation);
COMMIT;
PRAGMA user_version=1;

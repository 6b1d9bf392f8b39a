"""A hundred commands of four developers, each with the next one of its kind.

A command and its variation differ in operands and options, as one does from another in a day.
"""

FRONTEND = (
    ("npm test", "npm test -- --watch=false src/cart"),
    ("npm run lint", "npm run lint -- --fix"),
    ("npm run build", "npm run build -- --mode staging"),
    ("npm run test:e2e -- --headed", "npm run test:e2e -- cart.spec.ts"),
    ("CI=1 npm test", "CI=1 npm test -- --coverage"),
    ("npx tsc --noEmit", "npx tsc -p tsconfig.build.json --noEmit"),
    ("npx eslint src --ext .ts,.tsx", "npx eslint src/cart.ts --fix"),
    ("npx prettier --check src", "npx prettier --write src/cart.ts"),
    ("npx vitest run src/cart.test.ts", "npx vitest run -t 'adds an item'"),
    ("npx playwright test", "npx playwright test cart.spec.ts --project=chromium"),
    ("npx next build", "npx next build --debug"),
    ("pnpm run dev > dev.log 2>&1", "pnpm run dev --port 4000 > dev.log 2>&1"),
    ("pnpm --filter web test", "pnpm --filter web test -- cart"),
    ("yarn build", "yarn build --profile"),
    ("npm ls react", "npm ls --depth=0"),
    ("npm outdated", "npm outdated --long"),
    ("npm view react version", "npm view vite versions --json"),
    ("npm ci", "npm ci"),
    ("node scripts/seed.js", "node scripts/seed.js"),
    ("cp .env.example .env.local", "cp .env.example .env.local"),
    ("mkdir -p src/cart", "mkdir -p src/cart"),
    ("curl -I https://example.org", "curl -I https://example.org"),
    ("git add src/cart.ts src/cart.test.ts", "git add -A"),
    ("git commit -m 'Add a cart'", "git commit --amend --no-edit"),
    ("gh pr view 12", "gh pr view 13 --comments"),
)

PYTHON = (
    ("pytest -q", "pytest -x tests/test_a.py -k parse"),
    ("python -m pytest tests -q 2>&1 | tail -20", "python -m pytest -x 2>&1 | tail -5"),
    ("uv run pytest", "uv run pytest -q tests/test_a.py"),
    ("uv run mypy src", "uv run mypy --strict src tests"),
    ("uv run ruff check .", "uv run ruff check --fix src"),
    ("ruff format src", "ruff format --check ."),
    ("mypy src", "mypy src tests --no-error-summary"),
    ("black --check .", "black src"),
    ("poetry run pytest -q", "poetry run pytest tests/test_a.py"),
    ("poetry show --tree", "poetry show requests"),
    ("pip list", "pip list --outdated"),
    ("pip show requests", "pip show -f flask"),
    ("uv pip list", "uv pip list --format json"),
    ("PYTHONPATH=src pytest -q", "PYTHONPATH=src pytest -x tests"),
    ("pytest > out.log 2>&1; tail -5 out.log", "pytest -x > out.log 2>&1; tail -50 out.log"),
    ("find . -name '*.py' | xargs wc -l", "find src -name '*.pyi' | xargs wc -c"),
    (
        "find . -name '*.py' -exec grep -l parse {} +",
        "find . -name '*.py' -exec grep -l parse {} +",
    ),
    ("python scripts/gen.py --all", "python scripts/gen.py --all"),
    ("python -c 'import sys; print(sys.path)'", "python -c 'import sys; print(sys.path)'"),
    ("pip install -r requirements.txt", "pip install -r requirements.txt"),
    ("sed -i 's/foo/bar/' src/app.py", "sed -i 's/foo/bar/' src/app.py"),
    ("touch one.txt", "touch one.txt"),
    ("alembic history", "alembic history --verbose"),
    ("git mv src/app.py src/main.py", "git mv src/main.py src/app.py"),
    ("git rebase main", "git rebase --continue"),
)

GO_AND_RUST = (
    ("GOOS=linux go build ./...", "GOOS=linux go build -o bin/server ./cmd/server"),
    ("go test ./...", "go test -race -run TestParse ./internal/..."),
    ("go vet ./...", "go vet ./cmd/..."),
    ("go env GOPATH", "go env GOMODCACHE GOFLAGS"),
    ("go list -m all", "go list -json ./..."),
    ("go doc net/http", "go doc fmt.Printf"),
    ("gofmt -l .", "gofmt -w cmd"),
    ("golangci-lint linters", "golangci-lint linters --json"),
    ("staticcheck ./...", "staticcheck ./..."),
    ("cargo build", "cargo build --release"),
    ("cargo test", "cargo test -p parser -- --nocapture"),
    ("cargo clippy", "cargo clippy --all-targets -- -D warnings"),
    ("cargo check", "cargo check --workspace"),
    ("cargo fmt", "cargo fmt --check"),
    ("cargo tree", "cargo tree -d"),
    ("cargo doc --no-deps", "cargo doc --open"),
    ("RUST_BACKTRACE=1 cargo test", "RUST_BACKTRACE=1 cargo test parse"),
    ("cargo bench > bench.txt", "cargo bench parse > bench.txt"),
    ("cargo run --release", "cargo run --release"),
    ("go run ./cmd/server", "go run ./cmd/server"),
    ("make test", "make test"),
    ("make -j4", "make -j4"),
    ("rustfmt src/main.rs", "rustfmt --check src/lib.rs"),
    ("git stash push -m wip", "git stash push src"),
    ("git cherry-pick abc123", "git cherry-pick --continue"),
)

OPS = (
    ("kubectl get pods", "kubectl get deployments -n prod -o wide"),
    ("kubectl describe pod web-1", "kubectl describe node n1"),
    ("kubectl logs web-1 --tail=50", "kubectl logs -f deploy/web -n prod"),
    ("kubectl -n prod get pods", "kubectl -n prod get pods -o yaml"),
    ("kubectl config current-context", "kubectl config current-context"),
    ("kubectl rollout status deploy/web", "kubectl rollout status deploy/api -n prod"),
    ("helm list", "helm list -A"),
    ("helm template chart", "helm template chart -f values.prod.yaml"),
    ("helm history web", "helm history api -n prod"),
    ("terraform plan", "terraform plan -var-file=prod.tfvars"),
    ("terraform validate", "terraform validate -json"),
    ("terraform fmt", "terraform fmt -check -recursive"),
    ("terraform state list", "terraform state list module.db"),
    ("docker ps", "docker ps -a"),
    ("docker logs web", "docker logs --tail 100 api"),
    ("docker build -t web .", "docker build -t web:2 --no-cache ."),
    ("docker compose up -d", "docker compose up -d db"),
    ("docker compose logs web", "docker compose logs --tail=20 db"),
    ("docker image ls", "docker image ls --all"),
    ("aws s3 ls", "aws s3 ls s3://logs/"),
    ("aws ec2 describe-instances", "aws ec2 describe-instances --region eu-west-1"),
    ("gcloud compute instances list", "gcloud compute instances list --limit=5"),
    ("systemctl status nginx", "systemctl status postgresql"),
    ("gh run list", "gh run list --limit 5"),
    ("ansible-playbook site.yml --check", "ansible-playbook site.yml --check"),
)

DEVELOPERS = (*FRONTEND, *PYTHON, *GO_AND_RUST, *OPS)
PROGRAMS = sorted(
    {
        word
        for pair in DEVELOPERS
        for text in pair
        for word in [next(each for each in text.split() if "=" not in each)]
    }
)

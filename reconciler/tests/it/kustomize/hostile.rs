//! Repositories made to hurt, through the program: each ends within a second of processor time and 256 MiB of address
//! space, in an error that says what is wrong or in the right output. Nothing outside of the tree is read, nothing is
//! fetched, nothing is executed.
//!
//! The limits are the kernel's (`ulimit`), so going past one kills the program and fails the case.

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use assert_cmd::Command;

use super::Folder;

const CANARY: &str = "canary-c0ffee";
const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

/// What a case may take: processor time and address space.
struct Limits {
    seconds: u64,
    kibibytes: u64,
}

const LIMITS: Limits = Limits { seconds: 1, kibibytes: 256 << 10 };
/// For what ends at the limits on work and growth of a whole build alone: seconds, and several times that without
/// optimisation.
const WHOLE_BUILD: Limits = Limits { seconds: 30, kibibytes: 768 << 10 };

/// What a case must end in.
enum Ends {
    /// Exit code 1 and an error with this text.
    Refused(&'static str),
    /// Exit code 0 and an output with this text.
    Gives(&'static str),
}
use Ends::{Gives, Refused};

/// A tree `repository` whose directory `overlay` is built, and beside it a directory `outside` with the canary.
struct Case(Folder);

impl Case {
    fn new(kustomization: impl AsRef<[u8]>) -> Self {
        let folder = Folder::new(&[("outside/kustomization.yaml", "resources: [secret.yaml]\n")]);
        folder.write("outside/secret.yaml", format!("{MAP}data: {{secret: {CANARY}}}\n"));
        folder.write("repository/overlay/kustomization.yaml", kustomization);
        folder.write("repository/overlay/a.yaml", MAP);
        Self(folder)
    }

    /// One file of objects.
    fn resource(content: impl AsRef<[u8]>) -> Self {
        Self::new("resources: [x.yaml]\n").file("x.yaml", content)
    }

    fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.0.write(&format!("repository/overlay/{path}"), content);
        self
    }

    fn link(self, path: &str, target: &str) -> Self {
        symlink(target, self.0.join("repository/overlay").join(path)).unwrap();
        self
    }

    fn pipe(self, path: &str) -> Self {
        let path = self.0.join("repository/overlay").join(path);
        let _ = std::fs::remove_file(&path);
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        self
    }

    fn ends(self, name: &str, expected: &Ends) {
        self.ends_within(&LIMITS, name, expected);
    }

    fn ends_within(self, limits: &Limits, name: &str, expected: &Ends) {
        let root = self.0.join("repository");
        let Limits { seconds, kibibytes } = limits;
        let limits = format!("ulimit -t {seconds}; ulimit -v {kibibytes}; exec \"$0\" \"$@\"");
        let started = Instant::now();
        let output = Command::new("sh")
            .args(["-c", &limits, env!("CARGO_BIN_EXE_stepgate"), "kustomize", "build"])
            .arg(root.join("overlay"))
            .arg("--root")
            .arg(&root)
            // What waits takes no processor time; the machine may be busy.
            .timeout(Duration::from_secs(120))
            .output()
            .unwrap();
        let took = started.elapsed();
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let tail: String = stderr.chars().take(2_000).collect();
        assert!(!stdout.contains(CANARY) && !stderr.contains(CANARY), "{name} showed the canary");
        match expected {
            Refused(message) => {
                assert_eq!(output.status.code(), Some(1), "{name} after {took:?}: {} {tail}", output.status);
                assert!(stdout.is_empty(), "{name}");
                assert!(stderr.contains(message), "{name}: {tail}");
                assert!(stderr.len() < 10_000, "{name}: an error of {} bytes", stderr.len());
            }
            Gives(text) => {
                assert_eq!(output.status.code(), Some(0), "{name} after {took:?}: {} {tail}", output.status);
                assert!(stdout.contains(text), "{name}");
            }
        }
    }
}

fn bomb(indent: &str) -> String {
    let mut text = format!("{indent}a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("{indent}a{level}: &a{level} [{items}]\n"));
    }
    text
}

fn objects(count: usize) -> String {
    let one = |number| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a{number}}}\n");
    (0..count).map(one).collect::<Vec<_>>().join("---\n")
}

#[test]
fn aliases_and_copies_do_not_multiply() {
    Case::resource(format!("{MAP}data:\n{}", bomb("  ")))
        .ends("alias bomb", &Refused("counting what aliases stand for"));
    Case::new(bomb("")).ends("alias bomb in the kustomization", &Refused("counting what aliases stand for"));
    let long = format!("{MAP}data:\n  a: &a {}\n  b: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 10_000].join(", "));
    Case::resource(long).ends("aliases of a long text", &Refused("counting what aliases stand for"));
    let copies: String = (0..28).map(|n| format!("- {{op: copy, from: /data, path: /data/x{n}}}\n")).collect();
    Case::new("resources: [x.yaml]\npatches:\n- {path: p.yaml, target: {kind: ConfigMap}}\n")
        .file("x.yaml", format!("{MAP}data: {{a: b}}\n"))
        .file("p.yaml", copies)
        .ends("copies into themselves", &Refused("the patch grows the object past"));
    let copies: String = (0..2_000).map(|n| format!("- {{op: copy, from: /data/a, path: /data/x{n}}}\n")).collect();
    Case::new("resources: [x.yaml]\npatches:\n- {path: p.yaml, target: {kind: ConfigMap}}\n")
        .file("x.yaml", format!("{MAP}data: {{a: {}}}\n", "x".repeat(1 << 20)))
        .file("p.yaml", copies)
        .ends_within(&WHOLE_BUILD, "copies of a long text", &Refused("growth"));
    let doubling = "- source: {kind: ConfigMap, name: a, fieldPath: data.a}\n  targets:\n  - select: {kind: ConfigMap}\n    \
        fieldPaths: [data.a]\n    options: {delimiter: \"-\", index: 99}\n";
    Case::new(format!("resources: [x.yaml]\nreplacements:\n{}", doubling.repeat(40)))
        .file("x.yaml", format!("{MAP}data: {{a: {}}}\n", "x".repeat(1_000)))
        .ends_within(&WHOLE_BUILD, "replacements that double", &Refused("growth"));
    let variables =
        "vars: [{name: V, objref: {kind: ConfigMap, name: a, apiVersion: v1}, fieldref: {fieldpath: data.a}}]\n";
    let pod = format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: c, args: [\"{}\"]}}]}}\n",
        "$(V)".repeat(100_000)
    );
    Case::new(format!("resources: [x.yaml]\n{variables}"))
        .file("x.yaml", format!("{MAP}data: {{a: {}}}\n{pod}", "x".repeat(100_000)))
        .ends_within(&WHOLE_BUILD, "a long variable", &Refused("growth"));
}

#[test]
fn what_never_ends_is_not_read() {
    Case::new("resources: [x.yaml]\n").pipe("x.yaml").ends("pipe as resource", &Refused("x.yaml"));
    Case::new("").pipe("kustomization.yaml").ends("pipe as kustomization", &Refused("no kustomization file"));
    Case::new("resources: [a.yaml]\npatches: [{path: p}]\n")
        .pipe("p")
        .ends("pipe as patch", &Refused("not a regular file"));
    Case::new("configMapGenerator: [{name: m, files: [p]}]\n")
        .pipe("p")
        .ends("pipe in a generator", &Refused("not a regular file"));
    Case::new("resources: [/dev/zero]\n").ends("/dev/zero", &Refused("/dev/zero"));
    Case::new("resources: [zero]\n").link("zero", "/dev/zero").ends("link to /dev/zero", &Refused("zero"));
    let chain: Vec<_> = (0..300).map(|level| format!("resources: [../b{}]\n", level + 1)).collect();
    let mut case = Case::new("resources: [../b0]\n");
    for (level, text) in chain.iter().enumerate() {
        case = case.file(&format!("../b{level}/kustomization.yaml"), text);
    }
    case.ends("300 bases", &Refused("kustomizations inside of one another"));
    Case::new("resources: [../b]\n")
        .file("../b/kustomization.yaml", "resources: [../overlay]\n")
        .ends("cycle", &Refused("leads back to the kustomization"));
    // Every level holds the one below it twice: a million builds of nothing.
    let mut case = Case::new("resources: [../l20]\n").file("../l0/kustomization.yaml", "namePrefix: a-\n");
    for level in 1..=20 {
        let below = level - 1;
        for side in ["a", "b"] {
            let text = format!("resources: [../l{below}]\nnamePrefix: {side}-\n");
            case = case.file(&format!("../l{below}{side}/kustomization.yaml"), text);
        }
        let text = format!("resources: [../l{below}a, ../l{below}b]\n");
        case = case.file(&format!("../l{level}/kustomization.yaml"), text);
    }
    case.ends_within(&WHOLE_BUILD, "diamonds", &Refused("steps"));
}

#[test]
fn large_inputs_are_built_or_refused() {
    Case::resource(objects(20_000)).ends("20,000 documents", &Gives("name: a19999\n"));
    Case::resource("a: 1\n---\n".repeat(100_001)).ends("too many documents", &Refused("more than 100000 documents"));
    let million = "#".repeat(1 << 20) + "\n";
    Case::resource(format!("{}{MAP}", million.repeat(64))).ends("64 MB comment", &Refused("larger than"));
    Case::resource(format!("{MAP}data: {{a: \"{}\"}}\n", "x".repeat(64 << 20)))
        .ends("64 MB scalar", &Refused("larger than"));
    Case::resource(format!("{}{MAP}", million.repeat(30))).ends("30 MB comment", &Gives("name: a\n"));
    Case::resource(format!("{MAP}data: {{a: \"{}\"}}\n", "x".repeat(30 << 20)))
        .ends("30 MB scalar", &Gives("  a: xxx"));
    Case::resource(format!("{MAP}data: {}{}\n", "[".repeat(100_000), "]".repeat(100_000)))
        .ends("100,000 levels", &Refused("x.yaml:4:"));
    Case::resource(format!("{MAP}data: {}x{}\n", "{a: ".repeat(9_000), "}".repeat(9_000)))
        .ends("9,000 levels", &Refused("nested deeper than"));
    let block: String = (0..5_000).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    Case::resource(format!("{MAP}{block}")).ends("5,000 levels of a block", &Refused("nested deeper than"));
    let generators: String = (0..100).map(|number| format!("- {{name: m{number}, files: [k=big]}}\n")).collect();
    Case::new(format!("configMapGenerator:\n{generators}")).file("big", "x".repeat(30 << 20)).ends_within(
        &WHOLE_BUILD,
        "a large file a hundred times",
        &Refused("growth"),
    );
    Case::new(format!("resources: [x.yaml]\nnamespace: {}\n", "x".repeat(1 << 20)))
        .file("x.yaml", objects(5_000))
        .ends("a long namespace", &Refused("growth"));
}

#[test]
fn expressions_do_not_run_away() {
    let target = |name: &str| {
        Case::new(format!(
            "resources: [a.yaml]\npatches:\n- target: {{name: '{name}'}}\n  patch: '[{{\"op\": \"add\", \"path\": \"/x\", \"value\": \"y\"}}]'\n"
        ))
    };
    target("(a+)+$").ends("nested repetition", &Gives("x: \"y\"\n"));
    target("((a{500}){500}){500}").ends("large expression", &Refused("too large"));
    target("(").ends("broken expression", &Refused("is wrong"));
}

#[test]
fn nothing_outside_of_the_tree_is_read() {
    for field in [
        "resources: [../../outside]",
        "resources: [../../outside/secret.yaml]",
        "resources: [../../../outside]",
        "components: [../../outside]",
        "bases: [../../outside]",
        "patches: [{path: ../../outside/secret.yaml}]",
        "patchesStrategicMerge: [../../outside/secret.yaml]",
        "patchesJson6902: [{path: ../../outside/secret.yaml, target: {version: v1, kind: ConfigMap, name: a}}]",
        "configMapGenerator: [{name: m, files: [../../outside/secret.yaml]}]",
        "configMapGenerator: [{name: m, files: [k=../../../../../../../etc/passwd]}]",
        "configMapGenerator: [{name: m, envs: [../../outside/secret.yaml]}]",
        "secretGenerator: [{name: m, files: [/etc/passwd]}]",
        "secretGenerator: [{name: m, env: ../../outside/secret.yaml}]",
        "configurations: [../../outside/secret.yaml]",
        "crds: [../../outside/secret.yaml]",
        "openapi: {path: ../../outside/secret.yaml}",
        "replacements: [{path: ../../outside/secret.yaml}]",
        "transformers: [../../outside/secret.yaml]",
        "generators: [../../outside]",
        "validators: [../../outside/secret.yaml]",
        "resources: [link]",
        "resources: [folder]",
        "resources: [folder/secret.yaml]",
        "components: [folder]",
        "patches: [{path: link}]",
        "configMapGenerator: [{name: m, files: [link]}]",
        "configMapGenerator: [{name: m, files: [folder/secret.yaml]}]",
        "openapi: {path: link}",
        "resources: [round]",
    ] {
        let case = Case::new(format!("{field}\n"))
            .link("link", "../../outside/secret.yaml")
            .link("folder", "../../outside")
            .link("round", "round");
        case.ends(field, &Refused("error: "));
    }
    let case = Case::new("");
    std::fs::remove_file(case.0.join("repository/overlay/kustomization.yaml")).unwrap();
    case.link("kustomization.yaml", "../../outside/kustomization.yaml")
        .ends("linked kustomization", &Refused("out of the file tree"));
}

#[test]
fn nothing_is_fetched_and_nothing_is_executed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let bait = Folder::new(&[("file", "")]);
    let other = Folder::new(&[("kustomization.yaml", "resources: [a.yaml]\n")]);
    other.write("a.yaml", format!("{MAP}data: {{secret: {CANARY}}}\n"));
    git2::Repository::init(other.path()).unwrap();
    let touch = format!("touch {}/touched", bait.path().display());
    for field in [
        format!("resources: [\"http://{host}/a.yaml\"]"),
        format!("resources: [\"https://{host}/a.yaml\"]"),
        format!("resources: [\"http://{host}/org/repository.git//path?ref=main\"]"),
        format!("resources: [\"git::http://{host}/org/repository\"]"),
        format!("resources: [\"ssh://git@{host}/org/repository\"]"),
        format!("resources: [\"file://{}\"]", other.path().display()),
        format!("components: [\"file://{}?ref=main\"]", other.path().display()),
        format!("bases: [\"http://{host}/x\"]"),
        format!("patches: [{{path: \"http://{host}/p.yaml\"}}]"),
        format!("openapi: {{path: \"http://{host}/s.json\"}}"),
        format!("crds: [\"http://{host}/c.json\"]"),
        format!("configurations: [\"http://{host}/c.yaml\"]"),
        format!("replacements: [{{path: \"http://{host}/r.yaml\"}}]"),
        format!("transformers: [\"http://{host}/t.yaml\"]"),
        format!("configMapGenerator: [{{name: m, files: [\"k=http://{host}/f\"]}}]"),
        format!("resources: [\"ssh://-oProxyCommand={touch}/x\"]"),
        format!("resources: [\"git@-oProxyCommand={touch}:x/y\"]"),
        format!("resources: [\"ext::sh -c {touch}\"]"),
        "helmCharts: [{name: x, repo: \"https://example.com\"}]".to_owned(),
        "helmChartInflationGenerator: [{chartName: x, chartRepoUrl: \"https://example.com\"}]".to_owned(),
    ] {
        Case::new(format!("{field}\n")).ends(&field, &Refused("error: "));
    }
    for (name, function) in [
        ("exec", format!("exec: {{path: \"{touch}\"}}")),
        ("container", "container: {image: \"example.com/x\"}".to_owned()),
        ("starlark", format!("starlark: {{path: x.star, url: \"http://{host}/x.star\"}}")),
    ] {
        for field in ["generators", "transformers", "validators"] {
            let plugin = format!(
                "apiVersion: example.com/v1\nkind: Plugin\nmetadata:\n  name: x\n  annotations:\n    config.kubernetes.io/function: |\n      {function}\n"
            );
            Case::new(format!("resources: [a.yaml]\n{field}: [p.yaml]\n"))
                .file("p.yaml", plugin)
                .ends(&format!("{name} in {field}"), &Refused("p.yaml:"));
        }
    }
    assert!(listener.accept().is_err(), "something connected");
    assert!(!bait.join("touched").exists(), "something was executed");
}

#[test]
fn odd_texts_are_read_as_kustomize_reads_them_or_refused() {
    Case::resource("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: \"x\0y\"}\n")
        .ends("NUL", &Refused("x.yaml:4:"));
    Case::new("resources: [\"a\\0.yaml\"]\n").ends("NUL in a path", &Refused("error: "));
    Case::resource(b"\xC3\x28").ends("not UTF-8", &Refused("x.yaml:1:1:"));
    Case::resource(format!("{MAP}data: {{on: yes, n: \"y\", x: off}}\n"))
        .ends("booleans of YAML 1.1", &Gives("\"on\": \"yes\"\n"));
    // The last one counts, as in kustomize; but it is told.
    Case::new("resources: [missing.yaml]\nresources: [a.yaml]\n").ends("a key twice", &Gives("name: a\n"));
    Case::resource(format!("{MAP}data: {{a: b, a: c}}\n")).ends("a key twice in an object", &Refused("x.yaml:4:"));
    Case::resource(format!("{MAP}data: &a {{x: *a}}\n")).ends("an anchor in itself", &Refused("contains itself"));
}

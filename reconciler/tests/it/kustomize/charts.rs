//! `--enable-helm` with the real helm: the bytes that kustomize gives with it (`fixtures/kustomize-charts/record`).

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use super::Folder;
use crate::support::stepgate;

fn helm() -> Option<PathBuf> {
    skip::named_by("STEPGATE_HELM")
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/kustomize-charts")
}

#[test]
fn charts_give_the_bytes_of_kustomize() {
    if helm().is_none() {
        return;
    }
    for case in ["entries", "layers", "generators"] {
        let folder = fixtures().join(case);
        let input = folder.join("input");
        let input = input.to_str().unwrap();
        let run = stepgate(&["kustomize", "build", input, "--root", input, "--enable-helm"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{case}");
        assert_eq!(run.stdout, std::fs::read_to_string(folder.join("expected.yaml")).unwrap(), "{case}");
        let off = stepgate(&["kustomize", "build", input, "--root", input]);
        assert_eq!((off.code, off.stdout.as_str()), (1, ""), "{case}");
        assert!(off.stderr.contains("charts are off") && off.stderr.contains("--enable-helm"), "{}", off.stderr);
    }
}

/// A kustomization with one chart of two templates.
fn with_chart(entry: &str) -> Folder {
    let folder = Folder::new(&[
        ("kustomization.yaml", &format!("helmCharts:\n- {{name: demo, releaseName: r, {entry}}}\n")),
        ("charts/demo/Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n"),
        ("charts/demo/values.yaml", "a: chart\n"),
    ]);
    folder.write(
        "charts/demo/templates/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  a: {{ .Values.a }}\n  k: {{ .Capabilities.KubeVersion.Version }}\n  l: {{ .Files.Get \"link\" | quote }}\n",
    );
    folder
}

#[test]
fn flags_go_before_what_the_charts_say() {
    let Some(helm) = helm() else { return };
    let folder = with_chart("kubeVersion: \"1.30.0\"");
    let helm = helm.to_str().unwrap().to_owned();
    let run = folder.build("", &["--enable-helm", "--helm-command", &helm, "--helm-kube-version", "1.33.0"]);
    assert!(run.stdout.contains("k: v1.33.0\n"), "{}", run.text());
    let run = folder.build("", &["--enable-helm", "--helm-command", &helm]);
    assert!(run.stdout.contains("k: v1.30.0\n"), "{}", run.text());
    let run = folder.build("", &["--enable-helm", "--helm-command", "/nonexistent/helm"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("there is no program /nonexistent/helm"), "{}", run.stderr);
}

#[test]
fn charts_reach_neither_files_beside_them_nor_options_of_helm() {
    let Some(_) = helm() else { return };
    let folder = with_chart("skipTests: true");
    std::os::unix::fs::symlink("/etc/passwd", folder.join("charts/demo/link")).unwrap();
    let run = folder.build("", &["--enable-helm"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("out of the file tree") && !run.stderr.contains("root:"), "{}", run.stderr);
    std::fs::remove_file(folder.join("charts/demo/link")).unwrap();
    for (kustomization, message) in [
        ("helmCharts: [{name: demo, releaseName: --post-renderer=/bin/true}]", "is not a valid name of a release"),
        ("helmCharts: [{name: ../demo}]", "is not a valid name of a chart"),
        ("helmCharts: [{name: --help}]", "is not a valid name of a chart"),
        ("helmCharts: [{name: demo, valuesFile: ../../outside.yaml}]", "out of the file tree"),
        ("helmCharts: [{name: demo, additionalValuesFiles: [/etc/passwd]}]", "out of the file tree"),
        ("helmCharts: [{name: demo}]\nhelmGlobals: {chartHome: ../../charts}", "out of the file tree"),
        ("helmCharts: [{name: demo}]\nhelmGlobals: {configHome: plugins}", "`configHome` is refused"),
        ("helmCharts: [{name: demo, valuesMerge: both, valuesInline: {a: b}}]", "one of merge, override, replace"),
        ("helmCharts: [{name: absent}]", "no `repo` is given"),
        ("helmCharts: [{name: demo, valueInline: {a: b}}]", "did you mean `valuesInline`"),
    ] {
        folder.write("kustomization.yaml", format!("{kustomization}\n"));
        let run = folder.build("", &["--enable-helm"]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{kustomization}");
        assert!(run.stderr.contains(message), "{kustomization}: {}", run.stderr);
    }
}

/// Serves the files of a folder over HTTP, to helm alone.
fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let path = line.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
            let (status, body) = match std::fs::read(folder.join(path)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = (&stream).write_all(head.as_bytes()).and_then(|()| (&stream).write_all(&body));
        }
    });
    address
}

#[test]
fn a_chart_that_is_not_there_is_pulled_and_kept() {
    let Some(helm) = helm() else { return };
    let source = with_chart("skipTests: true");
    let expected = source.build("", &["--enable-helm"]).stdout;
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&helm);
        assert!(command.args(arguments).current_dir(source.path()).output().unwrap().status.success(), "{arguments:?}");
    };
    run(&["package", "charts/demo"]);
    run(&["repo", "index", "."]);
    let address = serve(source.path().to_owned());
    let folder = Folder::new(&[(
        "kustomization.yaml",
        &format!("helmCharts:\n- {{name: demo, releaseName: r, repo: \"{address}\", version: 1.0.0}}\n"),
    )]);
    let first = folder.build("", &["--enable-helm"]);
    assert_eq!((first.code, first.stdout.as_str()), (0, expected.as_str()), "{}", first.stderr);
    assert!(folder.join("charts/demo-1.0.0/demo/Chart.yaml").is_file());
    // The next build takes what lies there.
    folder.write("charts/demo-1.0.0/demo/values.yaml", "a: edited\n");
    let second = folder.build("", &["--enable-helm"]);
    assert!(second.stdout.contains("  a: edited\n"), "{}", second.text());
    folder
        .write("kustomization.yaml", format!("helmCharts:\n- {{name: other, repo: \"{address}\", version: 9.9.9}}\n"));
    let missing = folder.build("", &["--enable-helm"]);
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("the chart `other`"), "{}", missing.stderr);
}

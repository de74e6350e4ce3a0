//! `stepgate extension`: hooks by HTTPS as Cluster API calls them, without a content type.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::stepgate;
use crate::tls::{Mounted, NAME, trusting};

struct Extension(Child);

impl Drop for Extension {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A kubeconfig of a server that is not there.
fn kubeconfig(folder: &Path) -> String {
    let file = folder.join("kubeconfig");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                users: [{name: a, user: {token: t}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n";
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

fn start(folder: &Path, tls: &Path) -> (Extension, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate"));
    command.args(["extension", "--listen", "127.0.0.1:0", "--kubeconfig", &kubeconfig(folder), "--tls-dir"]).arg(tls);
    let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("hooks at https://")).expect("it says where hooks are answered");
    std::thread::spawn(move || lines.for_each(drop));
    (Extension(process), line.rsplit("//").next().unwrap().trim().parse().unwrap())
}

fn post(path: &str, body: &Value) -> String {
    let body = body.to_string();
    format!("POST {path}?timeout=10s HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn body(answer: &str) -> Value {
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

const HOOKS: &str = "/hooks.runtime.cluster.x-k8s.io/v1alpha1";

#[test]
fn hooks_are_answered_by_https_with_replaced_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let mut tls = Mounted::at(folder.path().join("tls"));
    let first = tls.renew();
    let (_extension, address) = start(folder.path(), &tls.folder);
    let discovery = post(&format!("{HOOKS}/discovery"), &json!({"kind": "DiscoveryRequest"}));
    let handlers = body(&trusting(&first, address, &discovery).unwrap())["handlers"].as_array().unwrap().len();
    assert_eq!(handlers, 3);

    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/hooks");
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(fixtures.join("machine-set-minor").join(name)).unwrap()).unwrap()
    };
    let path = format!("{HOOKS}/canupdatemachineset/can-update-machine-set");
    let answer = body(&trusting(&first, address, &post(&path, &read("request.json"))).unwrap());
    assert_eq!(answer, read("answer.json"));

    // Whether a node is done cannot be known: Cluster API asks again.
    let machine = json!({"metadata": {"name": "one", "namespace": "fleet"}, "spec": {"version": "v1.36.4"}});
    let update = json!({"kind": "UpdateMachineRequest", "desired": {"machine": machine, "infrastructureMachine": {}}});
    let answer =
        body(&trusting(&first, address, &post(&format!("{HOOKS}/updatemachine/update-machine"), &update)).unwrap());
    assert_eq!(answer["status"], "Failure", "{answer}");

    let second = tls.renew();
    assert!(trusting(&second, address, &discovery).is_some(), "a replaced certificate counts at once");
    assert!(trusting(&first, address, &discovery).is_none());
}

#[test]
fn what_is_no_request_is_answered_as_a_failure_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut tls = Mounted::at(folder.path().join("tls"));
    let certificate = tls.renew();
    let (_extension, address) = start(folder.path(), &tls.folder);
    let asked = |request: &str| trusting(&certificate, address, request).unwrap();
    let path = format!("{HOOKS}/canupdatemachine/can-update-machine");
    let answer = body(&asked(&post(&path, &json!({"kind": "UpdateMachineRequest"}))));
    assert_eq!(answer["status"], "Failure");
    assert!(answer["message"].as_str().unwrap().contains("expected CanUpdateMachineRequest"), "{answer}");
    assert!(asked(&post(&format!("{HOOKS}/beforeclustercreate/a"), &json!({}))).starts_with("HTTP/1.1 404"));
    assert!(asked(&format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\n\r\n")).starts_with("HTTP/1.1 405"));
    let large = format!("POST {path} HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: {}\r\n\r\n", 64 << 20);
    assert!(asked(&large).starts_with("HTTP/1.1 413"), "nothing of it is read");
}

#[test]
fn an_extension_without_a_certificate_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let run = stepgate(&[
        "extension",
        "--tls-dir",
        folder.path().to_str().unwrap(),
        "--kubeconfig",
        &kubeconfig(folder.path()),
    ]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("tls.crt"), "{}", run.stderr);
}

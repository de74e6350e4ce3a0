//! Pull secrets of pods and of mirrors.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rollout::LoginSource;
use secrecy::ExposeSecret as _;

use super::*;
use crate::client::server::Answer;
use crate::kubernetes::{PullContent, PullLogins};

/// What nothing may show.
const CANARY: &str = "hunter2";

fn secret(kind: &str, data: &[(&str, &str)]) -> Value {
    let data: serde_json::Map<String, Value> =
        data.iter().map(|(key, value)| ((*key).to_owned(), json!(STANDARD.encode(value)))).collect();
    json!({"metadata": {"name": "s"}, "type": kind, "data": data})
}

fn of_pods(name: &str) -> LoginSource {
    LoginSource::Secret { namespace: "n".to_owned(), name: name.to_owned() }
}

fn account(name: &str) -> LoginSource {
    LoginSource::ServiceAccount { namespace: "n".to_owned(), name: name.to_owned() }
}

/// What each source leads to, in short.
fn shown(found: &PullLogins, source: &LoginSource) -> Vec<String> {
    let content = |content: &PullContent| match content {
        PullContent::DockerConfigJson(text) => format!("json {}", text.expose_secret()),
        PullContent::DockerCfg(text) => format!("cfg {}", text.expose_secret()),
        PullContent::OfHost { host, user, password } => {
            format!("{}:{} at {host}", user.expose_secret(), password.expose_secret())
        }
        PullContent::Absent => "absent".to_owned(),
        PullContent::Unread { reason, remedy } => format!("{reason}; {remedy}"),
    };
    found
        .get(source)
        .into_iter()
        .flatten()
        .map(|login| format!("{} {}", login.secret, content(&login.content)))
        .collect()
}

#[tokio::test]
async fn pull_secrets_are_read_by_name_where_the_operator_names_their_namespace() {
    let path = |name: &str| format!("/api/v1/namespaces/n/secrets/{name}");
    let forbidden = Answer::Error(403, "Forbidden");
    let script = served()
        .object(&path("json"), secret("kubernetes.io/dockerconfigjson", &[(".dockerconfigjson", CANARY)]))
        .object(&path("cfg"), secret("kubernetes.io/dockercfg", &[(".dockercfg", CANARY)]))
        .object(&path("opaque"), secret("Opaque", &[(".dockerconfigjson", CANARY)]))
        .on(&format!("GET {}", path("closed")), forbidden.clone())
        .object(
            "/api/v1/namespaces/n/serviceaccounts/runner",
            json!({"metadata": {"name": "runner"}, "imagePullSecrets": [{"name": "json"}]}),
        )
        .on("GET /api/v1/namespaces/n/serviceaccounts/closed", forbidden)
        .object(
            "/api/v1/namespaces/eksa-system/secrets/registry-credentials",
            secret("Opaque", &[("username", "me"), ("password", CANARY)]),
        );
    let server = ApiServer::start(script).await;
    let cluster = KubernetesCluster::management(server.connection(), PathBuf::from("/nonexistent"));
    let mirror = LoginSource::Mirror { host: "m.example:443".to_owned() };
    let secrets = ["json", "cfg", "opaque", "closed", "gone"].map(of_pods);
    let accounts = ["runner", "closed", "none"].map(account);
    let sources: BTreeSet<LoginSource> = secrets.iter().chain(&accounts).chain([&mirror]).cloned().collect();

    let found = cluster.pull_logins(&sources, &["n".to_owned(), "eksa-system".to_owned()]).await.unwrap();
    assert_eq!(shown(&found, &of_pods("json")), [format!("n/json json {CANARY}")]);
    assert_eq!(shown(&found, &of_pods("cfg")), [format!("n/cfg cfg {CANARY}")]);
    assert_eq!(shown(&found, &of_pods("gone")), ["n/gone absent"]);
    assert_eq!(shown(&found, &account("runner")), [format!("n/json json {CANARY}")]);
    assert_eq!(shown(&found, &account("none")), [""; 0]);
    assert_eq!(shown(&found, &mirror), [format!("eksa-system/registry-credentials me:{CANARY} at m.example:443")]);
    for (source, part) in [
        (of_pods("opaque"), "its type is \"Opaque\""),
        (of_pods("closed"), "let Stepgate `get` the Secret closed in n"),
        (account("closed"), "let Stepgate `get` the ServiceAccount n/closed"),
    ] {
        let shown = shown(&found, &source).join("");
        assert!(shown.contains(part) && !shown.contains(CANARY), "{shown}");
    }
    assert!(!format!("{found:?}").contains(CANARY), "{found:?}");

    // What the operator has not named is not asked for, and told.
    let before = server.lines().len();
    let found = cluster.pull_logins(&sources, &[]).await.unwrap();
    let told = shown(&found, &of_pods("json")).join("");
    assert!(told.contains("Secret n/json is not read") && told.contains("--pull-secrets n (STEPGATE_"), "{told}");
    assert!(shown(&found, &mirror).join("").contains("--pull-secrets eksa-system"), "{found:?}");
    let asked = server.lines();
    assert!(asked.iter().skip(before).all(|line| !line.contains("/secrets")), "{asked:?}");
}

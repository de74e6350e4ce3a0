use super::*;
use crate::{
    Approval, BackupPolicy, InPlaceDriver, OnDecline, RolloutStrategy, Week, Weekday, WindowDay, Windows,
    commented_policy,
};
use domain::Scope;

fn read(text: &str) -> (Policy, Vec<Problem>) {
    read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes())
}

fn good(text: &str) -> Policy {
    let (policy, problems) = read(text);
    assert_eq!(problems, [], "{text}");
    policy
}

#[test]
fn nothing_and_the_commented_policy_are_the_default() {
    assert_eq!(good(""), Policy::default());
    // What may be asked is the operator's to say, and said in the file.
    let commented = good(&commented_policy());
    assert!(commented.fetch_allow.iter().any(|host| host == "distro.eks.amazonaws.com"));
    assert_eq!(Policy { fetch_allow: Vec::new(), ..commented }, Policy::default());
}

/// Every commented line of the template is itself valid: the template cannot name a field that is refused.
#[test]
fn the_commented_policy_is_valid_with_its_examples_switched_on() {
    let mut text = String::new();
    for line in commented_policy().lines() {
        let body = line.strip_prefix("# ").or_else(|| line.strip_prefix("  # ").map(|_| line)).unwrap_or(line);
        let field = body.trim_start().trim_start_matches("- ").split(':').next().unwrap_or_default();
        let is_field = body.contains(':')
            && (body.ends_with(':') || body.contains(": "))
            && !field.contains(' ')
            && field.chars().next().is_some_and(|first| first.is_ascii_lowercase() || field == "EXP_MACHINE_POOL")
            && !body.ends_with('.')
            && !["approval: none, rollout", "onFailure: hold, or", "yaml-language-server: "]
                .iter()
                .any(|prose| body.starts_with(prose));
        if is_field && line.starts_with("# ") {
            text.push_str(body);
            text.push('\n');
        }
    }
    let policy = good(&text);
    assert_eq!(policy.waves.len(), 2, "{text}");
    assert_eq!(policy.environment_of("prod-1"), Some("production"));
    assert_eq!(
        policy.settings.windows[0].days.iter().map(|day| day.weekday).collect::<Vec<_>>(),
        [Weekday::Monday, Weekday::Tuesday, Weekday::Wednesday, Weekday::Thursday]
    );
    assert_eq!(policy.delete_data.len(), 2);
    assert!(policy.signing.is_some() && policy.cilium.is_some());
}

#[test]
fn the_most_specific_setting_wins() {
    let policy = good(
        "soak: 10s\nstages: {workers: {soak: 20s}, workers/a: {soak: 30s}}\n\
         environments: {prod: {clusters: ['p-*'], soak: 40s, stages: {workers/a: {soak: 50s}}, approval: rollout, acceptEdits: true}}\n\
         clusters: {p-2: {soak: 60s, stages: {control-plane: {soak: 70s, retries: 2}, capi: {acceptEdits: false}}}, q: {environment: prod}}\n",
    );
    for (cluster, stage, soak) in [
        ("other", "capi", 10),
        ("other", "workers/b", 20),
        ("other", "workers/a", 30),
        ("p-1", "workers/b", 40),
        ("p-1", "workers/a", 50),
        ("p-2", "workers/a", 60),
        ("p-2", "control-plane", 70),
        ("q", "capi", 40),
        ("p-1", "cilium@v1.18.2-0", 40),
    ] {
        assert_eq!(policy.stage_policy(cluster, stage).soak.as_secs(), soak, "{cluster} {stage}");
    }
    assert_eq!(policy.stage_policy("p-2", "control-plane").retries, 2);
    let accepts = |cluster: &str| policy.stage_policy(cluster, "capi").accept_edits;
    assert_eq!([accepts("other"), accepts("p-1"), accepts("p-2")], [false, true, false]);
    assert_eq!(policy.stage_policy("q", "capi").approval, Approval::Rollout);
    assert_eq!(policy.stage_policy("other", "capi").approval, Approval::None);
    assert_eq!(good("").stage_policy("x", "control-plane").timeout.as_secs(), 7200);
}

#[test]
fn machines_roll_unless_a_level_says_in_place() {
    let text = "clusters: {edge: {strategy: inPlace, inPlace: {onDecline: replace, driver: controller}, \
                stages: {workers/spare: {strategy: rolling}, control-plane: {inPlace: {onDecline: hold}}, workers/a: {inPlace: {driver: hooks}}}}}";
    let policy = good(text);
    let machines = |cluster: &str, stage: &str| {
        let machines = policy.stage_policy(cluster, stage).machines;
        (machines.strategy, machines.on_decline)
    };
    let driver = |cluster: &str, stage: &str| policy.stage_policy(cluster, stage).machines.driver;
    assert_eq!(driver("other", "control-plane"), None);
    // What a stage says of one field leaves the others to the cluster.
    assert_eq!(driver("edge", "control-plane"), Some(InPlaceDriver::Controller));
    assert_eq!(driver("edge", "workers/a"), Some(InPlaceDriver::Hooks));
    assert_eq!(machines("other", "control-plane"), (None, OnDecline::Hold));
    assert_eq!(machines("edge", "control-plane"), (Some(RolloutStrategy::InPlace), OnDecline::Hold));
    assert_eq!(machines("edge", "workers/a"), (Some(RolloutStrategy::InPlace), OnDecline::Replace));
    assert_eq!(machines("edge", "workers/spare").0, Some(RolloutStrategy::Rolling));
}

#[test]
fn every_mistake_has_a_place_and_advice() {
    for (text, line, column, message, hint) in [
        ("soka: 1m", 1, 1, "unknown field \"soka\" in the policy", "did you mean \"soak\"?"),
        ("stages:\n  control_plane: {}", 2, 3, "unknown field \"control_plane\"", "did you mean \"control-plane\"?"),
        ("stages:\n  capi: {sook: 1m}", 2, 10, "unknown field \"sook\" in stages.capi", "did you mean \"soak\"?"),
        (
            "stages:\n  cilium: {brakes: true}",
            2,
            12,
            "brakes is a setting of stage control-plane, and not of cilium",
            "write it below stages.control-plane",
        ),
        (
            "stages: {workers: {gate: first-node}}",
            1,
            20,
            "gate is a setting of stage control-plane, and not of workers",
            "write it below stages.control-plane",
        ),
        (
            "stages: {control-plane: {gate: first-nod}}",
            1,
            32,
            "gate must be one of whole, first-node, not \"first-nod\"",
            "did you mean \"first-node\"?",
        ),
        (
            "stages: {cilium: {strategy: inPlace}}",
            1,
            19,
            "strategy is a setting of stages with machines, and not of cilium",
            "stages.workers/GROUP",
        ),
        ("strategy: in-place", 1, 11, "strategy must be one of rolling, inPlace, not \"in-place\"", ""),
        ("inPlace: {onDecline: wait}", 1, 22, "inPlace.onDecline must be one of hold, replace, not \"wait\"", ""),
        ("inPlace: {driver: hook}", 1, 19, "inPlace.driver must be one of hooks, controller, not \"hook\"", "hooks"),
        (
            "upgraders: registry.test/a:1",
            1,
            12,
            "upgraders: \"registry.test/a:1\" is not a valid repository",
            "HOST/PATH",
        ),
        ("upgraders: upgrader", 1, 12, "upgraders: \"upgrader\" is not a valid repository of images", "without a tag"),
        ("inPlace: {on: hold}", 1, 11, "unknown field \"on\" in inPlace", ""),
        ("stages: {control-plane: {brakes: hard}}", 1, 34, "brakes must be true or false", ""),
        ("lease: Plndr_Lock", 1, 8, "lease \"Plndr_Lock\" is not a valid name of an object", "such as plndr-cp-lock"),
        ("approval: always", 1, 11, "approval must be one of none, rollout, stage, not \"always\"", ""),
        ("approval: stages", 1, 11, "approval must be one of", "did you mean \"stage\"?"),
        ("soak: 5", 1, 7, "soak: \"5\" is not a duration", ""),
        ("paused: maybe", 1, 9, "paused must be true or false", ""),
        ("retries: -1", 1, 10, "retries must be a number from 0 to 100", ""),
        (
            "deploy: {branch: 'a b'}",
            1,
            18,
            "deploy.branch: \"a b\" is not a valid name of a branch",
            "check-ref-format",
        ),
        (
            "deploy: {branch: release..1}",
            1,
            18,
            "deploy.branch: \"release..1\" is not a valid name",
            "check-ref-format",
        ),
        ("deploy: {path: ../x}", 1, 16, "deploy.path: repository path \"../x\"", ""),
        ("- a", 1, 1, "the policy must be a mapping", ""),
        ("signing: {key: /etc/key}", 1, 11, "signing.key names a key of Stepgate's machine", "--signing-key FILE"),
        ("signing: {key: gpg-id, format: gpg}", 1, 11, "signing.key names a key", "STEPGATE_SIGNING_KEY"),
        ("mirrors:\n  - /var/lib/Mirror/", 2, 5, "is not a valid name of a mirror", "--mirror mirror=/var/lib/Mirror/"),
        ("mirrors: [central, ../x/..]", 1, 20, "\"../x/..\" is not a valid name", "--mirror NAME=../x/.."),
        ("mirrors: ['a=b']", 1, 11, "is not a valid name of a mirror", "STEPGATE_MIRROR"),
        ("mirrors: central", 1, 10, "mirrors must be a list", ""),
        ("fetch: {allow: ['https://a/b']}", 1, 16, "fetch.allow: \"https://a/b\" is an address", "without https"),
        ("backup: {maxAge: 1m}", 1, 18, "backup.maxAge is so short that no backup may count", "at least 10m"),
        ("backup: {keepFor: 5m}", 1, 19, "backup.keepFor is so short that no backup may stay", "at least 10m"),
        ("backup: {keep: 0}", 1, 16, "backup.keep must be a number from 1 to 1000", ""),
        ("backup: {max_age: 1h}", 1, 10, "unknown field \"max_age\" in backup", "did you mean \"maxAge\"?"),
        ("flux: {source: {kind: Bucket}}", 1, 23, "flux.source.kind must be one of GitRepository, OCIRepository", ""),
        ("windows: [{days: [lastsunday]}]", 1, 18, "\"lastsunday\" is not a valid day", "\"last sunday\""),
        ("windows: [{days: [fifth monday]}]", 1, 18, "\"fifth monday\" is not a valid day", "monday"),
        (
            "windows: [{timeZone: Europe/Berln}]",
            1,
            22,
            "\"Europe/Berln\" is not a valid time zone",
            "\"Europe/Berlin\"?",
        ),
        ("windows: [{timeZone: local}]", 1, 22, "\"local\" is not a valid time zone", "IANA"),
        ("windows: [{from: 25:00}]", 1, 18, "windows.from must be a time of day", "quote it"),
        (
            "stages: {verify: {windows: [{to: '04:00'}]}}",
            1,
            19,
            "stage verify commits nothing that could begin in a window",
            "below a stage that commits",
        ),
        ("freezes: [{from: 12-20, to: 2027-01-06, reason: x}]", 1, 11, "one day with a year and one without", "both"),
        ("freezes: [{from: 2027-01-06, to: 2026-12-20, reason: x}]", 1, 11, "cannot end on 2026-12-20", "earlier"),
        ("freezes: [{from: 03-01, to: 02-28, reason: x}]", 1, 11, "of every year never ends", "paused"),
        ("freezes: [{from: 12-32, to: 01-06, reason: x}]", 1, 18, "\"12-32\" is not a day of a year", ""),
        ("variables: {A: }", 1, 0, "variables.A must be a text", "empty value"),
        ("a: 1\na: 2", 2, 1, "", "stepgate init"),
        ("a: [", 1, 0, "", "stepgate init"),
    ] {
        let (_, problems) = read(text);
        let problem = problems.first().unwrap_or_else(|| panic!("{text:?} was accepted"));
        assert!(problem.message.contains(message), "{text:?}: {problem}");
        assert!(problem.hint.as_deref().unwrap_or_default().contains(hint), "{text:?}: {problem}");
        assert_eq!(problem.path.as_ref().unwrap().as_str(), "stepgate.yaml");
        if column > 0 {
            assert_eq!((problem.line, problem.column), (Some(line), Some(column)), "{text:?}: {problem}");
        }
    }
}

#[test]
fn a_mistake_in_one_cluster_is_that_clusters_alone() {
    let (policy, problems) = read("clusters: {a: {soka: 1m}, b: {paused: true, environment: nowhere}}\nsoak: 7s");
    let scopes: Vec<_> = problems.iter().map(|problem| problem.scope.clone()).collect();
    assert_eq!(scopes, [Scope::Cluster("a".to_owned()), Scope::Cluster("b".to_owned())]);
    let now = jiff::Timestamp::UNIX_EPOCH;
    assert!(policy.is_paused("b", now) && !policy.is_paused("a", now));
    assert_eq!(policy.stage_policy("a", "capi").soak.as_secs(), 7);
}

#[test]
fn backups_count_for_a_day_and_five_of_them_stay_unless_told() {
    let of = |text: &str| good(text).backup;
    let day = Duration::from_secs(24 * 60 * 60);
    assert_eq!(of(""), BackupPolicy { max_age: day, keep: 5, keep_for: None });
    let some = BackupPolicy { max_age: day * 2, keep: 1, keep_for: Some(day * 90) };
    assert_eq!(of("backup: {maxAge: 2d, keep: 1, keepFor: 90d}"), some);
    assert_eq!(good("flux: {source: {kind: OCIRepository, name: fleet}}").flux.source.kind, "OCIRepository");
    let decryption = good("flux: {decryption: {secret: sops-age, serviceAccount: kms}}").flux.decryption.unwrap();
    assert_eq!((decryption.secret.as_deref(), decryption.service_account.as_deref()), (Some("sops-age"), Some("kms")));
}

#[test]
fn waves_windows_and_orders() {
    let policy = good(
        "waves: [{clusters: ['canary-*']}, {environments: [prod], concurrency: 3}]\n\
         environments: {prod: {clusters: ['*-prod-*', exact]}}\n\
         windows: [{days: [Saturday, last sunday], from: '22:00', to: '04:00', timeZone: Europe/Berlin}]\n\
         clusters: {c: {workerOrder: [b, nowhere, a], windows: [{from: '00:00', to: '24:00'}]}}",
    );
    for (cluster, wave) in
        [("canary-1", Some(0)), ("exact", Some(1)), ("de-prod-1", Some(1)), ("prod", None), ("exact-", None)]
    {
        assert_eq!(policy.wave_of(cluster), wave, "{cluster}");
    }
    let groups = ["a".to_owned(), "b".to_owned(), "z".to_owned()];
    assert_eq!(policy.worker_order("c", &groups), ["b", "a", "z"]);
    let listed = good("clusters: {c: {workerOrder: [istio, others, logging]}}");
    let groups = ["z-1-31", "logging-1-31", "a-1-31", "istio-1-31"].map(str::to_owned);
    let stem = |name: &str| name.strip_suffix("-1-31").map(str::to_owned);
    let order = listed.worker_order_by("c", &groups, stem);
    assert_eq!(order, ["istio-1-31", "a-1-31", "z-1-31", "logging-1-31"], "others by name, where they stand");
    let groups = ["b", "others", "a", "istio"].map(str::to_owned);
    assert_eq!(
        listed.worker_order("c", &groups),
        ["istio", "others", "b", "a"],
        "a group of that name is meant itself"
    );
    assert_eq!(policy.windows("c", "capi")[0].to, 24 * 60);
    let window = &policy.windows("x", "capi")[0];
    let days = [
        WindowDay { week: Week::Every, weekday: Weekday::Saturday },
        WindowDay { week: Week::Last, weekday: Weekday::Sunday },
    ];
    assert_eq!((window.days.as_slice(), window.from), (days.as_slice(), 22 * 60));
    assert_eq!(window.time_zone.to_string(), "Europe/Berlin");
}

#[test]
fn windows_of_a_stage_stand_beside_those_of_its_level() {
    let policy = good(
        "windows: [{to: '01:00'}]\n\
         stages: {workers: {windows: [{to: '02:00'}]}, workers/db: {windows: [{to: '03:00'}]}}\n\
         environments: {prod: {clusters: [p], stages: {control-plane: {windows: [{to: '04:00'}]}}}}\n\
         clusters: {own: {windows: [{to: '05:00'}], stages: {etcd: {windows: [{to: '06:00'}]}}}}",
    );
    for (cluster, stage, hours) in [
        ("x", "capi", 1),
        ("x", "workers/a", 2),
        ("x", "workers/db", 3),
        ("p", "control-plane", 4),
        ("p", "workers/db", 3),
        ("p", "cilium@1.18.2", 1),
        ("own", "workers/db", 5),
        ("own", "etcd", 6),
    ] {
        let windows = policy.windows(cluster, stage);
        assert_eq!(windows.iter().map(|window| window.to / 60).collect::<Vec<_>>(), [hours], "{cluster} {stage}");
        assert_eq!(policy.stage_policy(cluster, stage).windows, Windows::from(windows.to_vec()), "{cluster} {stage}");
    }
    let openings = policy.openings("p");
    assert_eq!(openings.every.len(), 1);
    let stages: Vec<&str> = openings.stages.iter().map(|(stage, _)| *stage).collect();
    assert_eq!(stages, ["control-plane", "workers", "workers/db"]);
    assert_eq!(
        policy.openings("own").stages.len(),
        1,
        "its own windows are more specific than those of stages of the fleet"
    );
}

#[test]
fn consents_to_delete_data_add_up_and_have_to_name_a_kind() {
    let policy = good(
        "deleteData: [Namespace/a]\nenvironments: {e: {clusters: ['p-*'], deleteData: [Namespace/b]}}\n\
         clusters: {p-1: {deleteData: ['PersistentVolumeClaim/db/*']}}\n",
    );
    let texts = |cluster: &str| policy.delete_data(cluster).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts("p-1"), ["Namespace/a", "Namespace/b", "PersistentVolumeClaim/db/*"]);
    assert_eq!(texts("q"), ["Namespace/a"]);
    let (policy, problems) = read("deleteData: ['*/a', Namespace/b]\n");
    assert_eq!(policy.delete_data.len(), 1);
    assert!(problems[0].to_string().contains("is none of Kind/name"), "{problems:?}");
}

#[test]
fn single_clusters_are_applied_by_a_pipeline_or_by_eksctl() {
    let policy = good("environments: {eks: {clusters: ['eks-*'], apply: pipeline}}\nclusters: {shop: {apply: eksctl}}");
    for (cluster, apply) in [("mgmt", Apply::Flux), ("shop", Apply::Eksctl), ("eks-1", Apply::Pipeline)] {
        assert_eq!(policy.apply_of(cluster), apply, "{cluster}");
    }
    let everybody = good("apply: pipeline");
    assert_eq!(everybody.apply_of("mgmt"), Apply::Pipeline);
}

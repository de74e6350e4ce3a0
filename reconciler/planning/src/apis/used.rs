//! Which API versions a manifest is written for, with the place of each.

use yaml::Node;

/// An API version that a manifest uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedApi {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// The object that uses it, as `Kind namespace/name`.
    pub object: String,
    /// The field of the object that names it, where the object itself is of another one.
    pub field: Option<&'static str>,
    /// Line of the API version, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// What of a document uses an API version: its objects, those in Lists opened, and what a `HorizontalPodAutoscaler` scales. A document that
/// is no object uses none.
#[must_use]
pub fn used_apis(root: &Node) -> Vec<UsedApi> {
    let items = root.get("items").and_then(Node::as_sequence);
    let is_list = root.get("kind").and_then(Node::as_str).is_some_and(|kind| kind.ends_with("List"));
    match items.filter(|_| is_list) {
        Some(items) => {
            let mut found: Vec<UsedApi> = items.iter().flat_map(used_apis).collect();
            // A list of a kind is of that kind's version; `v1 List` says nothing.
            found.extend(of_object(root).filter(|list| list.kind != "List" && items.is_empty()));
            found
        }
        None => of_object(root).into_iter().chain(scale_target(root)).collect(),
    }
}

fn of_object(object: &Node) -> Option<UsedApi> {
    used(object, object, None)
}

fn scale_target(object: &Node) -> Option<UsedApi> {
    let kind = object.get("kind").and_then(Node::as_str)?;
    if kind != "HorizontalPodAutoscaler" {
        return None;
    }
    used(object, object.at(&["spec", "scaleTargetRef"])?, Some("spec.scaleTargetRef"))
}

fn used(object: &Node, reference: &Node, field: Option<&'static str>) -> Option<UsedApi> {
    let version = reference.get("apiVersion")?;
    let kind = |of: &Node| of.get("kind").and_then(Node::as_str).map(str::to_owned);
    let text = |path: &[&str]| object.at(path).and_then(Node::as_str);
    let name = text(&["metadata", "name"]).or_else(|| text(&["metadata", "generateName"])).unwrap_or("without a name");
    let place = text(&["metadata", "namespace"]).map(|namespace| format!("{namespace}/")).unwrap_or_default();
    Some(UsedApi {
        api_version: version.as_str()?.to_owned(),
        kind: kind(reference)?,
        object: format!("{} {place}{name}", kind(object)?),
        field,
        line: version.span.line(),
        column: version.span.column(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let documents = yaml::parse(text, &yaml::Limits::default()).unwrap();
        let used = documents.iter().flat_map(|document| used_apis(&document.root));
        let line = |it: UsedApi| {
            let field = it.field.map(|field| format!(" {field}")).unwrap_or_default();
            format!("{}:{} {} {} of {}{field}", it.line, it.column, it.api_version, it.kind, it.object)
        };
        used.map(line).collect()
    }

    #[test]
    fn objects_in_lists_and_streams_are_found_with_their_places() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- kind: CronJob\n  apiVersion: batch/v1beta1\n  metadata: {name: a, namespace: n}\n\
                    - {apiVersion: v1, kind: List, items: [{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: b}}]}\n---\n\
                    # a value file\nreplicas: 2\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {generateName: j-}\n";
        assert_eq!(
            told(text),
            [
                "5:15 batch/v1beta1 CronJob of CronJob n/a",
                "7:53 policy/v1beta1 PodDisruptionBudget of PodDisruptionBudget b",
                "12:13 batch/v1 Job of Job j-",
            ]
        );
    }

    #[test]
    fn what_an_autoscaler_scales_is_used_too() {
        let text = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1beta2, kind: Deployment, name: d}\n";
        assert_eq!(
            told(text),
            [
                "1:13 autoscaling/v2 HorizontalPodAutoscaler of HorizontalPodAutoscaler h",
                "5:32 apps/v1beta2 Deployment of HorizontalPodAutoscaler h spec.scaleTargetRef",
            ]
        );
        assert_eq!(told("kind: PodSecurityPolicyList\napiVersion: policy/v1beta1\nitems: []\n").len(), 1);
    }
}

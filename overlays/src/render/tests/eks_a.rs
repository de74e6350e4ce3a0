use super::*;

#[test]
fn definitions_come_before_the_controller_that_needs_them() {
    let scene = demo();
    let rendered = scene.render("mgmt", &RenderedTree::new());
    let tree = &component(&rendered, ComponentName::EksA).tree;
    let kinds = |file: &str| -> Vec<String> {
        let bytes = tree.get(&format!("eks-a/{file}")).unwrap_or_else(|| panic!("{file} is missing"));
        let kind = |node: &Node| node.get("kind").and_then(Node::as_str).unwrap().to_owned();
        objects_of(bytes).iter().map(kind).collect()
    };
    // Published, the first definition comes after a Namespace.
    assert_eq!(kinds("eksa-crds.yaml"), vec!["CustomResourceDefinition"; 3]);
    let others = kinds("eksa-components.yaml");
    assert!(others.contains(&"Deployment".to_owned()) && !others.contains(&"CustomResourceDefinition".to_owned()));
    let list = objects_of(tree.get("eks-a/kustomization.yaml").unwrap());
    let resources = list[0].get("resources").and_then(Node::as_sequence).unwrap();
    let order: Vec<&str> = resources.iter().filter_map(Node::as_str).collect();
    assert_eq!(order, ["eksa-crds.yaml", "eksa-components.yaml"]);
}

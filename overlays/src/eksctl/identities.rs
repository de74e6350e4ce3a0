//! Identity mappings that let nobody in.

use yaml::Node;

/// Roles of identity mappings that are written with a path, each with what it is to be: whoever assumes such a role
/// comes without its path, and `aws-auth` is compared with that. Access entries alone know paths.
pub(crate) fn roles_with_path(root: &Node) -> impl Iterator<Item = (&Node, String)> {
    let mode = root.at(&["accessConfig", "authenticationMode"]).and_then(Node::as_str);
    let mappings = root.get("iamIdentityMappings").and_then(Node::as_sequence).unwrap_or_default();
    let read = mappings.iter().filter(move |_| mode != Some("API"));
    read.filter_map(|item| {
        let arn = item.get("arn")?;
        let (account, role) = arn.as_str()?.split_once(":role/")?;
        let (_, name) = role.rsplit_once('/')?;
        Some((arn, format!("{account}:role/{name}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mode: &str, arn: &str, expected: Option<&str>) {
        let text = format!("accessConfig: {{authenticationMode: {mode}}}\niamIdentityMappings: [{{arn: \"{arn}\"}}]\n");
        let root = yaml::parse(&text, &yaml::Limits::default()).unwrap().remove(0).root;
        let found: Vec<String> = roles_with_path(&root).map(|(_, wanted)| wanted).collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn roles_are_mapped_without_their_path() {
        let sso = "arn:aws:iam::111122223333:role/aws-reserved/sso.amazonaws.com/eu-west-1/AWSReservedSSO_Admin_ab12";
        let wanted = Some("arn:aws:iam::111122223333:role/AWSReservedSSO_Admin_ab12");
        check("API_AND_CONFIG_MAP", sso, wanted);
        check("CONFIG_MAP", sso, wanted);
        check("API", sso, None);
        check("CONFIG_MAP", "arn:aws:iam::111122223333:role/admins", None);
        check("CONFIG_MAP", "arn:aws:iam::111122223333:user/team/kim", None);
    }
}

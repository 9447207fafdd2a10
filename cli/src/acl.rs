//! Whom an ACL admits, as said to a client that it refuses.

use std::collections::BTreeSet;

use zookeeper_client::{Acl, Client, Error, Permission};

use crate::closing;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::text::{harmless, message};

/// Adds to a refusal by an ACL who this client is, whom the ACL admits, and which options may help.
pub(crate) async fn explain_refusal(failure: Failure, connection: &Connection) -> Failure {
    let Some((forbidden, needed)) = failure.forbidden_path() else { return failure };
    match find_acl(connection, forbidden).await {
        Some((users, path, acl)) => {
            // Below a node that does not exist, everything begins with its creation.
            let needed = if path == forbidden { needed } else { &[Permission::CREATE] };
            let admitted = both_sides(&users, &path, acl.as_deref());
            let advice = acl.map_or_else(|| options_for(&|_| true), |acl| advice_text(&users, &acl, needed));
            failure.with_fact(format_args!("{admitted}; {advice}"))
        }
        None => failure.with_fact(options_for(&|_| true)),
    }
}

/// Asks who this client is to the servers, and which ACL guards a path. `None` if the servers do not say.
async fn find_acl(connection: &Connection, path: &str) -> Option<(Vec<String>, String, Option<Vec<Acl>>)> {
    let client = connection.client().await.ok()?;
    // Servers before 3.7 do not say it.
    let users = client.list_auth_users().await.unwrap_or_default();
    let acl = nearest_acl(&client, path).await;
    closing::close_client(client).await;
    let (path, acl) = acl?;
    let users = users.iter().map(|user| format!("{}:{}", user.scheme(), user.user()));
    Some((users.collect(), path, acl))
}

/// Whether everybody may create nodes in this directory. False if the servers do not show its ACL.
pub(crate) async fn is_open_to_all(connection: &Connection, directory: &str) -> bool {
    let Some((_, path, Some(acl))) = find_acl(connection, directory).await else { return false };
    let creates =
        |acl: &Acl| identity_text(acl) == "world:anyone" && acl.permission().has(Permission::CREATE);
    path == directory && acl.iter().any(creates)
}

/// Says whose credentials help: those to whom the ACL grants what it does not grant to these users, of what they need.
fn advice_text(users: &[String], acl: &[Acl], needed: &[Permission]) -> String {
    let grants = |who: &str, one: Permission| {
        acl.iter().any(|acl| identity_text(acl) == who && acl.permission().has(one))
    };
    let users = [users, &["world:anyone".to_owned()]].concat();
    let is_granted = |one: &Permission| users.iter().any(|user| grants(user, *one));
    let missing = needed.iter().copied().filter(|one| !is_granted(one)).collect::<Vec<_>>();
    // The password may be wrong. Or the ACL of another node refuses, where the same identities may help.
    let missing = if missing.is_empty() { needed.to_vec() } else { missing };
    let may_help = |acl: &&Acl| {
        let name = identity_text(acl);
        let is_ours = users.contains(&name) && acl.scheme() != "digest";
        !is_ours && missing.iter().all(|one| grants(&name, *one))
    };
    let helpers = acl.iter().filter(may_help).collect::<Vec<_>>();
    let whom = helpers.iter().map(|acl| identity_text(acl)).collect::<BTreeSet<_>>();
    let whom = message(&Vec::from_iter(whom).join(" or "));
    let lacks = missing.into_iter().fold(Permission::NONE, |all, one| all | one);
    match (helpers.is_empty(), options_for(&|scheme| helpers.iter().any(|acl| acl.scheme() == scheme))) {
        (true, _) => format!("no other identity has {} there, so change the ACL", permissions_text(lacks)),
        (_, options) if options.is_empty() => format!("only {whom} has {} there", permissions_text(lacks)),
        (_, options) => format!("{options}: those of {whom}"),
    }
}

/// Names the options that give an identity of such a scheme; nothing if none does.
fn options_for(has: &dyn Fn(&str) -> bool) -> String {
    let options = [
        ("digest", "--digest-file (or ZKLOCK_DIGEST)"),
        ("sasl", "--digest-file (or ZKLOCK_DIGEST) with --sasl digest-md5"),
        ("x509", "--tls-cert and --tls-key"),
    ];
    let options = options.iter().filter(|(scheme, _)| has(scheme)).map(|(_, option)| *option);
    match options.collect::<Vec<_>>().join(", or ") {
        none if none.is_empty() => none,
        some => format!("give credentials that the ACL names: {some}"),
    }
}

/// The nearest node at this path or above it, and its ACL. An ACL is hidden from those whom it grants nothing.
async fn nearest_acl(client: &Client, path: &str) -> Option<(String, Option<Vec<Acl>>)> {
    let mut path = path;
    loop {
        match client.get_acl(path).await {
            Ok((acl, _)) => return Some((path.to_owned(), Some(acl))),
            Err(Error::NoAuth) => return Some((path.to_owned(), None)),
            Err(Error::NoNode) if path != "/" => {
                path = path
                    .rsplit_once('/')
                    .map(|(parent, _)| parent)
                    .filter(|parent| !parent.is_empty())
                    .unwrap_or("/");
            }
            Err(_) => return None,
        }
    }
}

fn both_sides(users: &[String], path: &str, acl: Option<&[Acl]>) -> String {
    let us = if users.is_empty() {
        "the servers do not say who this client is".to_owned()
    } else {
        format!("the servers know this client as {}", harmless(&users.join(" and ")))
    };
    let path = harmless(path);
    let digest = users.iter().find(|user| user.starts_with("digest:"));
    let caveat = digest.map_or_else(String::new, |user| {
        format!("; servers accept any password for {}, and only an ACL checks it", harmless(user))
    });
    let Some(acl) = acl else { return format!("{us}, and do not show it the ACL of {path}{caveat}") };
    let granted =
        acl.iter().map(|acl| format!("{} {}", identity_text(acl), permissions_text(acl.permission())));
    let granted = message(&granted.collect::<Vec<_>>().join(", "));
    format!("{us}, and the ACL of {path} grants {granted}{caveat}")
}

/// An identity of an ACL, without the hash of its password.
fn identity_text(acl: &Acl) -> String {
    let id = if acl.scheme() == "digest" { acl.id().split(':').next().unwrap_or_default() } else { acl.id() };
    format!("{}:{id}", acl.scheme())
}

fn permissions_text(granted: Permission) -> String {
    let all = [
        (Permission::READ, "READ"),
        (Permission::WRITE, "WRITE"),
        (Permission::CREATE, "CREATE"),
        (Permission::DELETE, "DELETE"),
        (Permission::ADMIN, "ADMIN"),
    ];
    if granted.has(Permission::ALL) {
        return "everything".to_owned();
    }
    let names = all.iter().filter(|(one, _)| granted.has(*one)).map(|(_, name)| *name).collect::<Vec<_>>();
    if names.is_empty() { "nothing".to_owned() } else { names.join("+") }
}

#[cfg(test)]
mod tests {
    use zookeeper_client::AuthId;

    use super::*;

    #[test]
    fn only_those_help_who_have_what_is_missing() {
        let [read, create, delete] = [Permission::READ, Permission::CREATE, Permission::DELETE];
        let acl = |scheme, id, permission| Acl::new(permission, AuthId::new(scheme, id));
        let alice = ["ip:127.0.0.1", "digest:alice"].map(str::to_owned);
        let said = |acl: &[Acl]| advice_text(&alice, acl, &[read, create, delete]);
        let anyone = acl("world", "anyone", read);
        let some = [anyone.clone(), acl("digest", "bob:x", create), acl("sasl", "carol", create | delete)];
        let sasl =
            "give credentials that the ACL names: --digest-file (or ZKLOCK_DIGEST) with --sasl digest-md5";
        assert_eq!(said(&some), format!("{sasl}: those of sasl:carol"));
        assert_eq!(said(&[anyone]), "no other identity has CREATE+DELETE there, so change the ACL");
        assert_eq!(
            said(&[acl("ip", "10.0.0.1", Permission::ALL)]),
            "only ip:10.0.0.1 has READ+CREATE+DELETE there"
        );
        // The password of this identity is wrong.
        assert!(
            said(&[acl("digest", "alice:x", Permission::ALL)])
                .ends_with("(or ZKLOCK_DIGEST): those of digest:alice")
        );
    }

    #[test]
    fn a_server_before_3_7_does_not_say_who_the_client_is() {
        let said = "the servers do not say who this client is, and do not show it the ACL of /lock";
        assert_eq!(both_sides(&[], "/lock", None), said);
        for option in ["--digest-file", "--sasl digest-md5", "--tls-cert"] {
            assert!(options_for(&|_| true).contains(option));
        }
    }
}

//! stub
use crate::{
    Error,
    config::{Member, Options},
};
use std::net::Ipv4Addr;
pub(crate) const IMAGE: &str = "zookeeper:3.9";
pub(crate) const PROXY_NAME: &str = "zookeeper-peers";
#[derive(Clone, Debug)]
pub(crate) struct Engine;
impl Engine {
    pub(crate) async fn find() -> Result<Self, String> {
        Err("not here yet".into())
    }
    pub(crate) fn has_image(&self) -> bool {
        false
    }
    pub(crate) fn proxy_host(&self) -> Ipv4Addr {
        Ipv4Addr::UNSPECIFIED
    }
}
#[derive(Debug)]
pub(crate) struct Container;
impl Container {
    pub(crate) fn new(_: &Engine, _: usize, _: &[Member], _: &Options) -> Result<Self, Error> {
        Ok(Self)
    }
    pub(crate) async fn start(&self) -> Result<(), Error> {
        Ok(())
    }
    pub(crate) async fn kill(&self) -> Result<(), Error> {
        Ok(())
    }
    pub(crate) async fn pause(&self) -> Result<(), Error> {
        Ok(())
    }
    pub(crate) async fn unpause(&self) -> Result<(), Error> {
        Ok(())
    }
    pub(crate) async fn has_exited(&self) -> bool {
        false
    }
    pub(crate) async fn log(&self) -> String {
        String::new()
    }
    pub(crate) fn client_address(&self) -> String {
        String::new()
    }
    pub(crate) fn peer_addresses(&self) -> Option<(String, String)> {
        None
    }
}

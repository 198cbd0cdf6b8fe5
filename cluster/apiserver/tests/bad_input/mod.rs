//! Requests that no well-behaved client sends. Each one gets upstream's answer or a closed
//! connection, and changes no object.

mod bodies;
mod cases;
mod changes;
mod damage;
mod depth;
mod requests;

package com.sun.security.auth.module;

/**
 * Stands in for the JDK's own class in a Trino whose user has no name in the system's list of users, as each warehouse's has: the original then has no name
 * either, without which Hadoop's file system, through which Trino reads and writes files, refuses to work. The platform gives the name as user.name.
 */
public class UnixSystem {
    protected String username = System.getProperty("user.name");
    protected long uid;
    protected long gid;
    protected long[] groups = {};

    public String getUsername() {
        return username;
    }

    public long getUid() {
        return uid;
    }

    public long getGid() {
        return gid;
    }

    public long[] getGroups() {
        return groups.clone();
    }
}

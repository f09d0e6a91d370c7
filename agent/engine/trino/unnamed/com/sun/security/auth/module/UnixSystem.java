package com.sun.security.auth.module;

/**
 * Replaces the JDK's class for a Trino whose user has no entry in the system's user list, which is
 * the case for each warehouse. The JDK's class then returns no name, and Hadoop's file system, with
 * which Trino reads and writes files, does not work without one. The platform passes the name as
 * user.name.
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

package storetest

var strategy = "FILE_COPY"

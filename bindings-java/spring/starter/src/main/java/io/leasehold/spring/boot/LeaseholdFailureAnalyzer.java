package io.leasehold.spring.boot;

import io.leasehold.LeaseholdException;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** What to do where an application does not start because of leasehold's client, or of etcd. */
final class LeaseholdFailureAnalyzer extends AbstractFailureAnalyzer<LeaseholdException> {
    @Override
    protected @Nullable FailureAnalysis analyze(Throwable root, LeaseholdException failure) {
        String action =
                switch (failure.code()) {
                    case INVALID_ARGUMENT ->
                        "Correct the option that it names: a property leasehold.*, or what a LeaseholdClientBuilderCustomizer sets.";
                    case UNAVAILABLE, DEADLINE_EXCEEDED ->
                        "Start etcd, or say in leasehold.endpoints where it is. For an application without a server, set"
                                + " leasehold.endpoints=memory://local: such locks exclude nobody outside of this process.";
                    case UNAUTHENTICATED, PERMISSION_DENIED ->
                        "Check leasehold.user and leasehold.password, the certificates, and what the roles of that user allow in"
                                + " etcd: reading and writing below the names of locks.";
                    case UNSUPPORTED ->
                        "Run on a platform that leasehold has a native library for, or name one in -Dleasehold.native.path; where the"
                                + " directory for temporary files forbids execution, name another one in -Dleasehold.native.dir.";
                    default -> null;
                };
        return action == null ? null : new FailureAnalysis(failure.code() + ": " + failure.getMessage(), action, failure);
    }
}

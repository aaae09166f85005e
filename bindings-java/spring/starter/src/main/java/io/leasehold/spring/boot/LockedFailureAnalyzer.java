package io.leasehold.spring.boot;

import io.leasehold.spring.LockedRefusedException;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;

/** What to do where an application does not start because of a method that cannot be locked. */
final class LockedFailureAnalyzer extends AbstractFailureAnalyzer<LockedRefusedException> {
    @Override
    protected FailureAnalysis analyze(Throwable root, LockedRefusedException failure) {
        return new FailureAnalysis(
                String.valueOf(failure.getMessage()),
                "Change " + failure.method() + " or its annotation. It would run without its lock otherwise, or not with the one that"
                        + " was meant.",
                failure);
    }
}

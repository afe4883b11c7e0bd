/*===- host.h - the host target -------------------------------------------===*\
 *
 * Policies on the CPU: kernels run as on a GPU, thread by thread (emulator). It is a
 * library of its own, kvc::host, beside kvc::runtime; libkvc.so has both.
 *
\*===----------------------------------------------------------------------===*/

#ifndef KVC_HOST_H
#define KVC_HOST_H

#ifdef __cplusplus
extern "C" {
#endif

/* From here on modules can be opened with KVC_HOST. May be called more than once, and
 * from several threads. */
void kvc_enable_host(void);

#ifdef __cplusplus
}
#endif

#endif /* KVC_HOST_H */

//===- Register.h - everything that a policy or a pass may name -----------===//

#ifndef KVC_TOOLS_KVC_OPT_REGISTER_H
#define KVC_TOOLS_KVC_OPT_REGISTER_H

namespace mlir {
class DialectRegistry;
}

namespace kvc {
void registerDialects(mlir::DialectRegistry &registry);
void registerPasses();
} // namespace kvc

#endif // KVC_TOOLS_KVC_OPT_REGISTER_H

/** TeX commands that are a single symbol or a function name. Data only. */

const pairs = (text) => Object.fromEntries(text.trim().split(/\s+/).map((pair) => pair.split("=")));

/** Rendered as identifiers. */
export const LETTERS = pairs(`
  alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι kappa=κ lambda=λ mu=μ nu=ν xi=ξ
  pi=π varpi=ϖ rho=ρ varrho=ϱ sigma=σ varsigma=ς tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ
  Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω hbar=ℏ ell=ℓ Re=ℜ Im=ℑ aleph=ℵ infty=∞ partial=∂ nabla=∇ emptyset=∅
  varnothing=∅ imath=ı jmath=ȷ degree=° circ=∘ prime=′ dots=… ldots=… cdots=⋯ vdots=⋮ ddots=⋱ top=⊤ bot=⊥ angle=∠ triangle=△
`);

/** Operators, relations, arrows, delimiters. */
export const OPERATORS = pairs(`
  times=× cdot=⋅ div=÷ pm=± mp=∓ ast=∗ star=⋆ bullet=∙ oplus=⊕ ominus=⊖ otimes=⊗ odot=⊙ wedge=∧ vee=∨ land=∧ lor=∨ neg=¬ lnot=¬
  cap=∩ cup=∪ setminus=∖ le=≤ leq=≤ ge=≥ geq=≥ ll=≪ gg=≫ ne=≠ neq=≠ approx=≈ equiv=≡ sim=∼ simeq=≃ cong=≅ propto=∝ in=∈ notin=∉
  ni=∋ subset=⊂ supset=⊃ subseteq=⊆ supseteq=⊇ forall=∀ exists=∃ nexists=∄ to=→ rightarrow=→ leftarrow=← gets=← Rightarrow=⇒
  implies=⟹ Leftarrow=⇐ leftrightarrow=↔ Leftrightarrow=⇔ iff=⟺ mapsto=↦ longrightarrow=⟶ uparrow=↑ downarrow=↓ mid=∣ parallel=∥
  perp=⊥ vdash=⊢ models=⊨ therefore=∴ because=∵ colon=: lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ langle=⟨ rangle=⟩ lbrace={ rbrace=}
  lvert=| rvert=| vert=| Vert=‖ lVert=‖ rVert=‖ backslash=\\
`);

/** Large operators; the second group has its limits above and below in display style. */
export const INTEGRALS = pairs("int=∫ iint=∬ iiint=∭ oint=∮");
export const LARGE = pairs("sum=∑ prod=∏ coprod=∐ bigcup=⋃ bigcap=⋂ bigoplus=⨁ bigotimes=⨂ bigvee=⋁ bigwedge=⋀");

export const FUNCTIONS = new Set(
  "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh exp log ln lg dim ker deg hom arg Pr".split(" "),
);
export const LIMITS = new Set("lim max min sup inf limsup liminf argmax argmin det gcd".split(" "));

export const ACCENTS = pairs(
  "bar=¯ overline=¯ hat=^ widehat=^ vec=→ tilde=~ widetilde=~ dot=˙ ddot=¨ overrightarrow=→ overbrace=⏞",
);
export const SPACES = {
  ",": "0.17em", ":": "0.22em", ">": "0.22em", ";": "0.28em", " ": "0.3em", "!": "-0.17em", quad: "1em", qquad: "2em",
};
export const VARIANTS = {
  mathbb: { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ", E: "𝔼", F: "𝔽", K: "𝕂", 1: "𝟙" },
  mathcal: {
    B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ",
    A: "𝒜", C: "𝒞", D: "𝒟", G: "𝒢", N: "𝒩", O: "𝒪", P: "𝒫", S: "𝒮", T: "𝒯", X: "𝒳",
  },
};
export const FENCES = { pmatrix: "()", bmatrix: "[]", Bmatrix: "{}", vmatrix: "||", Vmatrix: "‖‖", cases: "{ " };
